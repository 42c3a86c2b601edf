"""Routes for schedules: jobs that are created repeatedly, by cron expression (in its time zone) or interval."""

from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Body, Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import JOB, RECHECK, SCHEDULE, job_examples
from forager.app.application import App
from forager.core.clock import in_seconds
from forager.core.ids import NAME, bad_name, checked_name, is_name
from forager.core.recheck import RecheckStatus
from forager.core.schedules import Schedule
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures

TEN_YEARS = 10 * 366 * 86_400

MOVES = ("pause", "resume", "run")

ScheduleName = Annotated[
    str,
    AfterValidator(checked_name),
    Path(
        description="Name of the schedule: up to 100 letters, digits, `.`, `_` and `-`; a letter or digit first.",
        examples=["bars-az-weekly"],
        json_schema_extra={"pattern": NAME},
    ),
]


class ScheduleBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        allow_inf_nan=False,
    )

    pipeline: str = Field(max_length=100)
    params: dict[str, Any] = Field(default_factory=dict, description="The parameters of each job.")
    cron: str | None = Field(default=None, max_length=200, description="Cron expression. Give either this or `every`.")
    timezone: str = Field(
        default="UTC",
        min_length=1,
        max_length=64,
        description="IANA name of the time zone of `cron`. Where clocks change, 6:00 stays 6:00.",
        examples=["America/New_York"],
    )
    every: Annotated[float, BeforeValidator(in_seconds), Field(ge=1, le=TEN_YEARS)] | None = Field(
        default=None,
        description="Time between two jobs: seconds as a number, or a text such as `30m`, `6h` or `1d`.",
        examples=["6h"],
    )
    paused: bool = False
    no_budget: bool = Field(
        default=False, description="Allows jobs that cost money to run without a budget; otherwise they are refused."
    )


class CostReport(BaseModel):
    """The cost of a schedule in a month of 730 hours. Nothing was spent to find out."""

    jobs: int
    expected_usd: Decimal
    worst_usd: Decimal
    has_budget: bool
    warning: str | None = Field(description="Why its budget may not be what was meant.")


class ScheduleReport(BaseModel):
    name: str
    pipeline: str
    params: dict[str, Any]
    cron: str | None
    timezone: str = Field(description="The time zone of `cron`.")
    every: float | None
    paused: bool
    per_month: CostReport | None = Field(description="Null if its jobs cost no money.")
    next_at: datetime | None = Field(description="Next firing time; null while paused.")
    last_at: datetime | None
    last_job: UUID | None
    last_error: str | None = Field(description="Why its last firing created no job.")


class RemovedSchedule(BaseModel):
    removed: str


class Fired(BaseModel):
    job_id: UUID


def schedules_router(app: App) -> Router:
    router = Router(prefix="/api/v1/schedules", tags=["schedules"], route_class=JsonRoute)
    _add_keeping(router, app)
    _add_moving(router, app)
    _refuse_names(router)
    return router


def _add_keeping(router: Router, app: App) -> None:
    @router.get(
        "",
        summary="List schedules",
        response_model=Envelope[list[ScheduleReport]],
        responses={200: example([SCHEDULE]), **failures()},
    )
    async def list_schedules(request: Request) -> Response:
        return answer(request, [await _report(app, schedule) for schedule in await app.schedules.all()])

    @router.get("/{name}", summary="Show a schedule", **_ONE)
    async def show_schedule(request: Request, name: ScheduleName) -> Response:
        return answer(request, await _report(app, await app.schedule(name)))

    @router.put("/{name}", summary="Create or replace a schedule", **_PUT)
    async def put_schedule(
        request: Request,
        name: ScheduleName,
        body: Annotated[ScheduleBody, Body(openapi_examples=job_examples(app, cron="0 6 * * 1", no_budget=True))],
        replace: Annotated[
            bool, Query(description="False: 409 if there is a schedule of this name, which stays as it is.")
        ] = True,
    ) -> Response:
        """The job's parameters are validated now, so that a typing error is reported here and not at the first
        firing. If its jobs cost money, they need a budget, or `no_budget`."""
        schedule = Schedule(
            name, body.pipeline, body.params,
            cron=body.cron, timezone=body.timezone, every=body.every, paused=body.paused,
        )  # fmt: skip
        await app.put_schedule(schedule, no_budget=body.no_budget, replace=replace)
        return answer(request, await _report(app, await app.schedule(name)))

    @router.delete(
        "/{name}",
        summary="Remove a schedule",
        response_model=Envelope[RemovedSchedule],
        responses={200: example({"removed": SCHEDULE["name"]}), **failures(404)},
    )
    async def remove_schedule(request: Request, name: ScheduleName) -> Response:
        """Jobs that it created stay."""
        await app.schedules.remove(name)
        return answer(request, {"removed": name})


def _add_moving(router: Router, app: App) -> None:
    @router.post("/{name}/pause", summary="Pause a schedule", **_ONE)
    async def pause_schedule(request: Request, name: ScheduleName) -> Response:
        await app.schedules.pause(name, paused=True)
        return answer(request, await _report(app, await app.schedule(name)))

    @router.post("/{name}/resume", summary="Resume a schedule", **_ONE)
    async def resume_schedule(request: Request, name: ScheduleName) -> Response:
        """Runs that were missed while it was paused are not caught up."""
        await app.resume_schedule(name)
        return answer(request, await _report(app, await app.schedule(name)))

    @router.post(
        "/{name}/run",
        status_code=202,
        summary="Run a schedule now",
        response_model=Envelope[Fired],
        responses={202: example({"job_id": JOB["id"]}), **failures(404)},
    )
    async def run_schedule(request: Request, name: ScheduleName) -> Response:
        """Creates one job in addition to the scheduled ones."""
        return answer(request, {"job_id": await app.scheduler.fire_now(await app.schedule(name))}, status=202)


def _refuse_names(router: Router) -> None:
    @router.api_route("/{rest:path}", methods=["GET", "PUT", "DELETE", "POST"], include_in_schema=False)
    async def refuse_name(request: Request, rest: str) -> Response:
        """Refuse an empty name or one with a slash: neither is one segment of a path, so it could reach another
        route."""
        name, _, move = rest.rpartition("/")
        moves = move in MOVES
        if not moves:
            name = rest
        if is_name(name):
            raise HTTPException(405, headers={"Allow": "POST" if moves else "DELETE, GET, PUT"})
        if request.method == "POST" and not moves:
            raise HTTPException(404)
        raise bad_name(name)


async def _report(app: App, schedule: Schedule) -> dict[str, Any]:
    cost = await app.cost_of_schedule(schedule)
    return {
        "name": schedule.name,
        "pipeline": schedule.pipeline,
        "params": schedule.params,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "every": schedule.every,
        "per_month": None if cost is None else asdict(cost),
        "paused": schedule.paused,
        "next_at": _moment(schedule.next_at),
        "last_at": _moment(schedule.last_at),
        "last_job": schedule.last_job,
        "last_error": schedule.last_error,
    }


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


_PUT: dict[str, Any] = {
    "response_model": Envelope[ScheduleReport],
    "responses": {200: example(SCHEDULE), **failures(404, 409, body=True)},
}
_ONE: dict[str, Any] = {
    "response_model": Envelope[ScheduleReport],
    "responses": {200: example(SCHEDULE), **failures(404, body=True)},
}


# Rechecks: how many records of each are due, how late the oldest is; pause and resume.


RecheckName = Annotated[str, Path(max_length=100, description="The recheck's name.", examples=["product.next_at"])]


class RecheckReport(BaseModel):
    name: str
    pipeline: str
    record: str = Field(description="The kind of its records.")
    field: str = Field(description="The field that holds the due time.")
    state: Literal["active", "paused"]
    due: int = Field(description="Records whose time has come, counted to 10,000.")
    late_seconds: float = Field(description="Seconds since the oldest of these came due.")
    oldest_due: datetime | None
    next_due: datetime | None = Field(description="The earliest due time that is still to come.")
    dispatched: int = Field(description="Number of records that were turned into tasks.")
    last_at: datetime | None = Field(description="Time of the last one.")
    error: str | None = Field(description="The error of its rule in the last page, with the record's key.")
    error_at: datetime | None
    job_id: UUID | None = Field(description="Its standing job, which has one task per record; null before the first.")


def rechecks_router(app: App) -> Router:
    router = Router(prefix="/api/v1/rechecks", tags=["rechecks"], route_class=JsonRoute)

    @router.get(
        "",
        summary="List rechecks",
        response_model=Envelope[list[RecheckReport]],
        responses={200: example([RECHECK]), **failures()},
    )
    async def list_rechecks(request: Request) -> Response:
        """The rechecks that the pipelines declare, sorted by name."""
        return answer(request, [_recheck_report(status) for status in await app.rechecks.statuses()])

    @router.get("/{recheck}", summary="Show a recheck", **_ONE_RECHECK)
    async def show_recheck(request: Request, recheck: RecheckName) -> Response:
        return answer(request, _recheck_report(await app.rechecks.status(recheck)))

    @router.post("/{recheck}/pause", summary="Pause a recheck", **_ONE_RECHECK)
    async def pause_recheck(request: Request, recheck: RecheckName) -> Response:
        """It creates no tasks until it is resumed; its due records wait. Tasks that it has created go on."""
        await app.rechecks.pause(recheck, paused=True)
        return answer(request, _recheck_report(await app.rechecks.status(recheck)))

    @router.post("/{recheck}/resume", summary="Resume a recheck", **_ONE_RECHECK)
    async def resume_recheck(request: Request, recheck: RecheckName) -> Response:
        """It goes on within seconds, with the records that came due meanwhile."""
        await app.rechecks.pause(recheck, paused=False)
        return answer(request, _recheck_report(await app.rechecks.status(recheck)))

    return router


def _recheck_report(status: RecheckStatus) -> RecheckReport:
    return RecheckReport(
        name=status.name,
        pipeline=status.pipeline,
        record=status.record,
        field=status.due_field,
        state="paused" if status.paused else "active",
        due=status.due,
        late_seconds=status.late,
        oldest_due=status.oldest_due,
        next_due=status.next_due,
        dispatched=status.dispatched,
        last_at=status.last_at,
        error=status.error,
        error_at=status.error_at,
        job_id=status.job,
    )


_ONE_RECHECK: dict[str, Any] = {
    "response_model": Envelope[RecheckReport],
    "responses": {200: example(RECHECK), **failures(404)},
}
