"""Routes for jobs of every pipeline: create, list, show, pause, resume, cancel, retry."""

from typing import Annotated, Any, get_type_hints
from uuid import UUID

from fastapi import Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import ATTEMPT, DEAD_DETAIL, JOB, JOB_CHANGE, REJECTED, TASK, job_examples
from forager.app.application import App
from forager.core.errors import FieldError, Rejected
from forager.core.ids import unknown_choice
from forager.ledger.reports import AttemptReport, ChangeReport, JobReport, TaskDetail, TaskReport, Why
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import (
    REPEATED,
    IdempotencyKey,
    JobStateName,
    JsonRoute,
    PageQuery,
    Router,
    TaskStateName,
    WhyQuery,
    checked_key,
    example,
    example_of,
    failures,
)
from forager.sdk.reports import RejectedReport

# The filter `pipeline` of lists: a name that cannot match is refused with the names that can.


async def check_pipeline(app: App, name: str | None) -> None:
    """Raise `Rejected` unless the name belongs to a pipeline, or to stored jobs of one that is no longer installed."""
    if name is None or name in app.pipelines or (await app.reports.jobs(pipeline=name, limit=1)).items:
        return
    known = set(app.pipelines) - set(app.internal)
    problem = FieldError("pipeline", unknown_choice("pipeline", name, known))
    raise Rejected("The request is not valid.", fields=[problem])


class NewJobBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pipeline: str = Field(max_length=100, description="Name of the pipeline.")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of the pipeline's job.")


class JobCreated(BaseModel):
    id: UUID
    pipeline: str
    state: str = Field(description="State after creation: queued, or completed if the job has no tasks.")
    total: int = Field(description="Tasks.")


class Requeued(BaseModel):
    requeued: int = Field(description="Tasks that were requeued: the failed ones, and those skipped because of them.")


class PauseBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"reason": "credits are being topped up"}]}
    )

    reason: str | None = Field(default=None, max_length=500, description="Shown with the job while it is paused.")


class JobsQuery(PageQuery):
    state: JobStateName | None = Field(default=None, description="Only jobs in this state.")
    pipeline: str | None = Field(default=None, max_length=100, description="Only jobs of this pipeline.")
    schedule: str | None = Field(default=None, max_length=100, description="Only jobs that this schedule created.")
    id: str | None = Field(
        default=None,
        min_length=4,
        max_length=36,
        pattern="^[0-9a-f-]+$",
        description="Only jobs whose id begins with these characters.",
        examples=["0f1c9b52"],
    )
    internal: bool = Field(
        default=False, description="Include jobs that Forager creates itself: webhooks, standing jobs of rechecks."
    )


class TasksQuery(WhyQuery):
    state: TaskStateName | None = Field(default=None, description="Only tasks in this state.")
    text: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Only tasks whose key or input, such as a URL, contains this text. A page may be short, even empty,"
        " and still have a next one.",
    )


def jobs_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["jobs"], route_class=JsonRoute)
    _add_reading(router, app)
    _add_doing(router, app)
    return router


def _add_reading(router: Router, app: App) -> None:
    @router.get(
        "/jobs",
        summary="List jobs",
        response_model=ResultPage[JobReport],
        responses={200: example([JOB], next_cursor=None), **failures()},
    )
    async def list_jobs(request: Request, asked: Annotated[JobsQuery, Query()]) -> Response:
        """Newest first. An unknown pipeline is refused."""
        await check_pipeline(app, asked.pipeline)
        listed = await app.reports.jobs(
            state=asked.state,
            pipeline=asked.pipeline,
            prefix=asked.id,
            hidden=() if asked.internal or asked.pipeline else app.internal,
            schedule=asked.schedule,
            standing=() if asked.internal else app.standing,
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, await app.waits.jobs(listed.items), listed.next_cursor)

    @router.get(
        "/jobs/{job_id}",
        summary="Show a job",
        response_model=Envelope[JobReport],
        responses={200: example(JOB), **failures(404)},
    )
    async def show_job(request: Request, job_id: UUID) -> Response:
        """Includes the job's counters, which are exact at any time."""
        return answer(request, await app.waits.job(await app.reports.job(job_id)))

    @router.get(
        "/jobs/{job_id}/history",
        summary="Show what was done to a job",
        response_model=ResultPage[ChangeReport],
        responses={200: example([JOB_CHANGE], next_cursor=None), **failures(404)},
    )
    async def show_job_history(request: Request, job_id: UUID, asked: Annotated[PageQuery, Query()]) -> Response:
        """Events such as created, paused, resumed, retried and ended, newest first, each with the job as it was
        then."""
        await app.reports.job(job_id)
        changes = await app.reports.history("job", str(job_id), cursor=asked.cursor, limit=asked.limit)
        return page(request, changes.items, changes.next_cursor)

    @router.get(
        "/jobs/{job_id}/tasks",
        summary="List a job's tasks",
        response_model=ResultPage[TaskReport],
        responses={200: example([TASK], next_cursor=None), **failures(404)},
    )
    async def list_tasks(request: Request, job_id: UUID, asked: Annotated[TasksQuery, Query()]) -> Response:
        """Sorted by kind and key."""
        listed = await app.reports.tasks(
            job_id,
            state=asked.state,
            why=Why(asked.reason, asked.error_type),
            text=asked.text,
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, listed.items, listed.next_cursor)

    @router.get(
        "/jobs/{job_id}/rejected",
        summary="List a job's rejected rows",
        response_model=ResultPage[RejectedReport],
        responses={200: example([REJECTED], next_cursor=None), **failures(404)},
    )
    async def list_rejected(request: Request, job_id: UUID, asked: Annotated[PageQuery, Query()]) -> Response:
        """Rows that failed validation, unchanged, each with the problem that was found. They changed no record."""
        rows = await app.reports.rejected(job_id, cursor=asked.cursor, limit=asked.limit)
        return page(request, rows.items, rows.next_cursor)

    @router.get(
        "/tasks/{task_id}",
        summary="Show a task",
        response_model=Envelope[TaskDetail],
        responses={200: example({k: v for k, v in DEAD_DETAIL.items() if k != "pipeline"}), **failures(404)},
    )
    async def show_task(request: Request, task_id: UUID) -> Response:
        """Includes the task's input and, if it failed, the evidence."""
        return answer(request, await app.reports.task(task_id))

    @router.get(
        "/tasks/{task_id}/attempts",
        summary="List a task's attempts",
        response_model=ResultPage[AttemptReport],
        responses={200: example([ATTEMPT], next_cursor=None), **failures(404)},
    )
    async def list_attempts(request: Request, task_id: UUID, asked: Annotated[PageQuery, Query()]) -> Response:
        """Oldest first. Failed attempts are always kept; successful ones only for steps that keep every attempt."""
        attempts = await app.reports.attempts(task_id, cursor=asked.cursor, limit=asked.limit)
        return page(request, attempts.items, attempts.next_cursor)


def _add_doing(router: Router, app: App) -> None:
    examples = job_examples(app)

    @router.post(
        "/jobs",
        status_code=202,
        summary="Create a job",
        response_model=Envelope[JobCreated],
        responses={202: _CREATED, **failures(404, 409, body=True)},
    )
    async def create_job(
        request: Request,
        body: Annotated[NewJobBody, Body(openapi_examples=examples)],
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Returns as soon as the job is durably stored. A repeated request with the same `Idempotency-Key` returns the
        same job."""
        made = await app.submit(body.pipeline, body.params, key=checked_key(idempotency_key))
        state = "queued" if made.total else "completed"
        data = {"id": made.job, "pipeline": body.pipeline, "state": state, "total": made.total}
        warnings = await app.warnings(body.pipeline, body.params)
        return answer(request, data, status=202, headers=None if made.created else REPEATED, warnings=warnings)

    @router.post(
        "/jobs/plan",
        summary="Estimate the cost of a job",
        response_model=Envelope[dict[str, Any]],
        responses={200: example(_first_plan(app)), **failures(404, body=True)},
    )
    async def plan_job(request: Request, body: Annotated[NewJobBody, Body(openapi_examples=examples)]) -> Response:
        """Sends nothing to the upstream and spends nothing. Returns 422 for a pipeline that has no estimate."""
        return answer(request, await app.estimate(body.pipeline, body.params))

    @router.post("/jobs/{job_id}/pause", summary="Pause a job", **_CHANGES_A_JOB)
    async def pause_job(request: Request, job_id: UUID, body: Annotated[PauseBody | None, Body()] = None) -> Response:
        """No more of its tasks are started. In-flight tasks finish."""
        await app.ledger.pause(job_id, body.reason if body else None)
        return answer(request, await app.reports.job(job_id))

    @router.post("/jobs/{job_id}/resume", summary="Resume a job", **_CHANGES_A_JOB)
    async def resume_job(request: Request, job_id: UUID) -> Response:
        await app.ledger.resume(job_id)
        return answer(request, await app.reports.job(job_id))

    @router.post("/jobs/{job_id}/cancel", summary="Cancel a job", **_CHANGES_A_JOB)
    async def cancel_job(request: Request, job_id: UUID) -> Response:
        """Its queued tasks are cancelled. In-flight tasks finish, and records stay."""
        await app.ledger.cancel(job_id)
        return answer(request, await app.reports.job(job_id))

    @router.post(
        "/jobs/{job_id}/retry",
        summary="Run a job's failures again",
        response_model=Envelope[Requeued],
        responses={200: example({"requeued": 3}), **failures(404, 409)},
    )
    async def retry_job(request: Request, job_id: UUID) -> Response:
        return answer(request, {"requeued": await app.retry(job_id)})


def _first_plan(app: App) -> dict[str, Any]:
    """Return the example of the first pipeline that can be priced, from the class that its estimate returns."""
    for feature in app.features.values():
        if feature.estimate is not None:
            return example_of(get_type_hints(feature.estimate.load())["return"])
    return {}


_CREATED = example(
    {"id": JOB["id"], "pipeline": "places", "state": "queued", "total": 915},
    description="The job is stored and will run.",
)
_CHANGES_A_JOB: dict[str, Any] = {
    "response_model": Envelope[JobReport],
    "responses": {200: example(JOB), **failures(404, 409, body=True)},
}
