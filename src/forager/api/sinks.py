"""Routes for sinks: list, show, add, remove, pause, resume, replay, and the changes that a sink refused."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import NEW_SINK, REFUSED_CHANGE, SINK, SINK_TYPE
from forager.app.application import App
from forager.core.errors import FieldError, Rejected
from forager.core.ids import no_such, sink_lane
from forager.core.sink import SinkRow, SinkStatus
from forager.sdk.expressions import LONGEST
from forager.sdk.feature import SinkFeature
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures

MOST_NUMBER = 2**63 - 1

SinkName = Annotated[str, Path(max_length=100, description="The sink's name.", examples=["webhook"])]
ChangeNumber = Annotated[
    int | None,
    Query(alias="change", ge=1, le=MOST_NUMBER, description="Only this change (default: all refused changes)."),
]


class SinkReport(BaseModel):
    name: str
    type: str | None = Field(description="Its type; null if it is no longer configured.")
    origin: Literal["settings", "row"] | None = Field(
        description="`settings`: configured by settings. `row`: it was added. Null if it is no longer configured."
    )
    kinds: list[str] | None = Field(description="Kinds of changes that it gets; null means all of its type.")
    pipelines: list[str] | None = Field(description="Pipelines whose changes it gets; null means all.")
    where: str | None = Field(description="The condition that changes must meet; null means none.")
    options: dict[str, Any]
    configured: bool = Field(description="True if this process can deliver to it.")
    problem: str | None = Field(description="Why this process cannot deliver it, although there is a row.")
    state: Literal["delivering", "failing", "paused", "idle"] = Field(
        description="`idle`: no process delivers it now. `failing`: its last try failed, or no"
        " receiver of its webhooks has accepted a message since; it is tried again."
    )
    cursor: int = Field(description="Number of the last change that it has passed.")
    behind: int = Field(description="Changes in the log after that, of any kind.")
    lag_seconds: float = Field(description="Age of the oldest of these, in seconds.")
    delivered: int = Field(
        description="Changes delivered, including repeated deliveries; of a webhook, messages answered with 2xx."
    )
    waiting: int = Field(description="Messages that webhook receivers have not accepted yet; 0 for other types.")
    rate: float = Field(description="Changes delivered per second, averaged over about a minute.")
    owner: str | None = Field(description="The session that delivers it now.")
    failures: int = Field(description="Failed tries since the last that succeeded.")
    error: str | None = Field(description="The last error, even if a later try succeeded.")
    error_at: datetime | None
    failing_since: datetime | None = Field(description="Time of the first of these failures; null while it works.")
    retry_at: datetime | None = Field(description="Time of the next attempt, while it fails or is full.")
    moved_at: datetime | None
    set_aside: int = Field(description="Refused changes that wait for a decision.")
    stalled: bool = Field(
        description="True if it fails and has delivered nothing for 5 minutes, or is full for a day: `degraded`."
    )


class AddedSink(SinkReport):
    warnings: list[str] = Field(
        description="Obstacles to delivery, such as a server that does not answer. The sink is added all the same, and"
        " tries again."
    )


class RefusedChange(BaseModel):
    """A change that a sink refused. Delivery went on with the changes after it."""

    change: int = Field(description="Its number in the log.")
    kind: str
    key: str
    op: str
    job: UUID | None
    tries: int
    error: str
    at: datetime
    retry: bool = Field(description="True if it will be delivered again shortly.")


class SinkBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [NEW_SINK]})

    name: str = Field(max_length=100, description="Up to 100 letters, digits, `.`, `_` and `-`.")
    type: str = Field(max_length=100, description="One of the types that `GET /api/v1/sink-types` lists.")
    kinds: list[str] | None = Field(default=None, min_length=1, description="Kinds of changes (default: all).")
    pipelines: list[str] | None = Field(
        default=None, min_length=1, description="Only changes that jobs of these pipelines caused (default: all)."
    )
    where: str | None = Field(
        default=None,
        min_length=1,
        max_length=LONGEST,
        description="Only changes of records that meet this condition, such as `old.price > price`; needs `kinds`.",
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of its type.")
    after: int | Literal["now"] = Field(
        default=0, description="Begin after this change number (0 = the whole log), or `now` for new changes only."
    )


class SinkType(BaseModel):
    name: str
    summary: str
    addable: bool = Field(description="True if sinks of this type can be added; otherwise only settings create one.")
    options: dict[str, Any] | None = Field(description="JSON Schema of its options; null if it has none.")


class ReplayBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"after": 0}]})

    after: int = Field(
        default=0, ge=0, le=MOST_NUMBER, description="Begin after this change number (0 = deliver the whole log)."
    )


class Decided(BaseModel):
    changes: int = Field(description="Number of changes affected.")


class RemovedSink(BaseModel):
    removed: str


def sinks_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["sinks"], route_class=JsonRoute)
    _add_looking(router, app)
    _add_rows(router, app)
    _add_moving(router, app)
    _add_refused(router, app)
    return router


def _add_looking(router: Router, app: App) -> None:
    @router.get(
        "/sinks",
        summary="List sinks",
        response_model=Envelope[list[SinkReport]],
        responses={200: example([SINK]), **failures()},
    )
    async def list_sinks(request: Request) -> Response:
        """Sinks of the settings, sinks that were added, and sinks that the ledger remembers from before."""
        await app.roster.refresh()
        statuses = await app.roster.statuses()
        return answer(request, [_report(app, status) for status in statuses])

    @router.get("/sinks/{sink}", summary="Show a sink", **_ONE)
    async def show_sink(request: Request, sink: SinkName) -> Response:
        return answer(request, _report(app, await _status(app, sink)))


def _add_rows(router: Router, app: App) -> None:
    @router.get(
        "/sink-types",
        summary="List types of sinks",
        response_model=Envelope[list[SinkType]],
        responses={200: example([SINK_TYPE]), **failures()},
    )
    async def list_sink_types(request: Request) -> Response:
        return answer(request, [_type(each) for each in app.roster.types.values()])

    @router.post(
        "/sinks",
        status_code=201,
        summary="Add a sink",
        response_model=Envelope[AddedSink],
        responses={201: example({**SINK, "warnings": []}), **failures(409, body=True)},
    )
    async def add_sink(request: Request, body: SinkBody) -> Response:
        """Starts a delivery of its own, in every process within a few seconds. Addresses and credentials are settings:
        only a webhook takes a URL, and the egress guard checks it. A sink that cannot work (a missing package or file
        of credentials, a folder that cannot be written) is refused; a server that does not answer now is a
        warning."""
        newest = (await app.sinks.position(body.name)).last
        after = newest if body.after == "now" else body.after
        _check_number(after, newest)
        row = SinkRow(body.name, body.type, _set(body.kinds), _set(body.pipelines), body.options, body.where)
        warnings = await app.roster.add(row, after=after)
        report = _report(app, await _status(app, body.name))
        return answer(request, AddedSink(**report.model_dump(), warnings=list(warnings)), status=201)

    @router.delete(
        "/sinks/{sink}",
        summary="Remove a sink",
        response_model=Envelope[RemovedSink],
        responses={200: example({"removed": "exports"}), **failures(404, 409)},
    )
    async def remove_sink(request: Request, sink: SinkName) -> Response:
        """Removes a sink that was added, or the state of one that the settings no longer configure: its position and
        its refused changes. What it has delivered stays."""
        await _status(app, sink)
        await app.roster.remove(sink)
        return answer(request, {"removed": sink})


def _add_moving(router: Router, app: App) -> None:
    @router.post("/sinks/{sink}/pause", summary="Pause a sink", **_ONE)
    async def pause_sink(request: Request, sink: SinkName) -> Response:
        """Delivers nothing after the current batch until the sink is resumed. Its position in the log is kept."""
        await _status(app, sink)
        await app.ledger.pause_lane(sink_lane(sink), paused=True)
        return answer(request, _report(app, await _status(app, sink)))

    @router.post("/sinks/{sink}/resume", summary="Resume a sink", **_ONE)
    async def resume_sink(request: Request, sink: SinkName) -> Response:
        """Continues from its position in the log."""
        await _status(app, sink)
        await app.ledger.pause_lane(sink_lane(sink), paused=False)
        return answer(request, _report(app, await _status(app, sink)))

    @router.post("/sinks/{sink}/replay", summary="Deliver changes to a sink again", **_ONE)
    async def replay_sink(request: Request, sink: SinkName, body: ReplayBody) -> Response:
        """Moves the sink's position in the log: back to deliver changes again, or forward to leave some out. A change
        takes effect once by its number; only a stream, such as a Kafka topic, shows it again, under the same number."""
        status = await _status(app, sink)
        _check_number(body.after, status.cursor + status.behind)
        await app.sinks.replay(sink, body.after)
        return answer(request, _report(app, await _status(app, sink)))


def _add_refused(router: Router, app: App) -> None:
    decided: dict[str, Any] = {
        "response_model": Envelope[Decided],
        "responses": {200: example({"changes": 1}), **failures(404)},
    }

    @router.get(
        "/sinks/{sink}/refused",
        summary="List what a sink has refused",
        response_model=ResultPage[RefusedChange],
        responses={200: example([REFUSED_CHANGE], next_cursor=None), **failures(404)},
    )
    async def list_refused(request: Request, sink: SinkName, asked: Annotated[PageQuery, Query()]) -> Response:
        """Sorted by change number."""
        await _status(app, sink)
        changes = await app.sinks.refused(sink, cursor=asked.cursor, limit=asked.limit)
        shown = [RefusedChange.model_validate(asdict(each)) for each in changes.items]
        return page(request, shown, changes.next_cursor)

    @router.post("/sinks/{sink}/refused/retry", summary="Deliver refused changes again", **decided)
    async def retry_refused(request: Request, sink: SinkName, change: ChangeNumber = None) -> Response:
        """Each is tried again. A change that is refused again stays in the list."""
        await _status(app, sink)
        return answer(request, {"changes": await app.sinks.retry(sink, change)})

    @router.post("/sinks/{sink}/refused/discard", summary="Discard refused changes", **decided)
    async def discard_refused(request: Request, sink: SinkName, change: ChangeNumber = None) -> Response:
        """They are removed from the list and not delivered to this sink. The log keeps them."""
        await _status(app, sink)
        return answer(request, {"changes": await app.sinks.discard(sink, change)})


async def _status(app: App, name: str) -> SinkStatus:
    await app.roster.refresh()
    statuses = await app.roster.statuses()
    for status in statuses:
        if status.name == name:
            return status
    raise no_such("sink", name, [each.name for each in statuses], "See `forager sinks list`.")


def _check_number(after: int, last: int) -> None:
    if not 0 <= after <= last:
        problem = FieldError("after", f"the newest change is {last}; give a number up to that")
        raise Rejected(f"after: {problem.message}.", fields=[problem])


def _set(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _type(feature: SinkFeature) -> SinkType:
    schema = None if feature.options is None else feature.options.load().model_json_schema()
    return SinkType(name=feature.name, summary=feature.summary, addable=feature.addable, options=schema)


def _report(app: App, status: SinkStatus) -> SinkReport:
    state: Literal["delivering", "failing", "paused", "idle"] = "delivering"
    if status.paused:
        state = "paused"
    elif status.failures:
        state = "failing"
    elif status.owner is None:
        state = "idle"
    known = asdict(status)
    lag = known.pop("lag")
    known.pop("paused")
    row = app.roster.row(status.name)
    return SinkReport(
        **known,
        lag_seconds=lag,
        state=state,
        type=row and row.type,
        origin=None if row is None else "settings" if row.created_at is None else "row",
        kinds=row and _sorted(row.kinds),
        pipelines=row and _sorted(row.pipelines),
        where=row and row.where,
        options=dict(row.options) if row else {},
        configured=status.name in app.deliveries,
        problem=app.roster.problems.get(status.name),
    )


_ONE: dict[str, Any] = {
    "response_model": Envelope[SinkReport],
    "responses": {200: example(SINK), **failures(404, body=True)},
}
