"""Routes of the scrape pipeline, as its specification prescribes: one page now or later, a batch, and their results."""

from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, Rejected, Stopping
from forager.core.ledger import Submitted
from forager.kit.http.envelope import About, Envelope, answer, refusal
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import body_of, example, failures, refused
from forager.kit.http.params import REPEATED, IdempotencyKey, checked_key
from forager.kit.http.routes import Router
from forager.kit.http.task_waiter import TaskWaiter
from forager.kit.reports import JobReport
from forager.kit.service import Service
from forager.pipelines.scrape.api_bodies import (
    BatchCreated,
    JobSeen,
    ResultSeen,
    TaskCreated,
    TaskSeen,
    job_of,
    seen_job,
    seen_result,
    seen_task,
)
from forager.pipelines.scrape.api_parts import add_parts
from forager.pipelines.scrape.examples import JOB, PAGE, RESULT, TASK
from forager.pipelines.scrape.job import MOST_IN_BATCH, MOST_TARGETS, ScrapeRequest
from forager.pipelines.scrape.pipeline import NAME
from forager.pipelines.scrape.reports import ScrapeTaskReport, first_task, one_task, results_of_job
from forager.pipelines.scrape.words import (
    CIRCUIT_OPEN,
    NO_HEALTHY_PROXIES,
    NOT_FOUND,
    POOL_EXHAUSTED,
    ROBOTS,
    TIMED_OUT,
    shown_reason,
)

RETRY_AFTER = {"Retry-After": "5"}
ENDED = frozenset({"completed", "failed", "cancelled"})
SHORT = frozenset({POOL_EXHAUSTED, NO_HEALTHY_PROXIES})
"""Reasons for which a task went back to the queue and a waiting caller gets an error at once."""
STATUS_OF_REASON = {
    ROBOTS: 403,
    CIRCUIT_OPEN: 503,
    POOL_EXHAUSTED: 503,
    NO_HEALTHY_PROXIES: 503,
    TIMED_OUT: 504,
}
"""HTTP status for a page that could not be fetched; any other reason is a 502."""


class SyncScrapeRequest(ScrapeRequest):
    """One page, and how long to wait for it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "target_type": "job_posting",
                    "target_url": "https://example.com/jobs/1",
                    "workspace_id": "acme",
                    "timeout_seconds": 30,
                }
            ]
        }
    )

    timeout_seconds: int = Field(
        default=60, strict=True, ge=5, le=120, description="Seconds until the answer is 504; the task continues."
    )


class AboutResult(About):
    provenance: dict[str, Any] | None = Field(
        default=None, description="Source of each field that was found: page, location and confidence."
    )
    page_url: str | None = Field(default=None, description="URL after redirects.")
    pages: list[str] | None = Field(default=None, description="Every page that was read.")
    rendered: bool | None = Field(default=None, description="By a browser.")


class TaskEnvelope(Envelope[TaskSeen]):
    meta: AboutResult


def routes(service: Service, waiter: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/scrape", tags=["scrape"], route_class=JsonRoute)
    _add_jobs(router, service, waiter)
    add_parts(router, service)
    _add_tasks(router, service, waiter)
    return router


def _add_tasks(router: Router, service: Service, waiter: TaskWaiter) -> None:
    @router.post(
        "",
        status_code=202,
        summary="Fetch a page",
        response_model=Envelope[TaskCreated],
        responses={202: _QUEUED, **failures(409, body=True)},
    )
    async def scrape_page(request: Request, body: ScrapeRequest, idempotency_key: IdempotencyKey = None) -> Response:
        """Returns as soon as the task is stored; `GET /api/v1/scrape/{task_id}` returns its state."""
        if waiter.closing.is_set():
            return _closing(request)
        task, made = await _submit_one(service, body, idempotency_key)
        data = {"task_id": task, "job_id": made.job, "status": "queued"}
        return answer(request, data, status=202, headers=None if made.created else REPEATED)

    @router.post(
        "/sync",
        summary="Fetch a page and wait for the result",
        response_model=TaskEnvelope,
        responses={200: example(TASK, **PAGE), **_SYNC_FAILURES},
    )
    async def scrape_page_now(
        request: Request, body: SyncScrapeRequest, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Returns when the task ends. After `timeout_seconds` it returns 504 with the task's id, and the task
        continues."""
        if waiter.closing.is_set():
            return _closing(request)
        before = waiter.told
        task, made = await _submit_one(service, body, idempotency_key)
        ended = await waiter.wait(
            task,
            before if made.created else None,
            body.timeout_seconds,
            read=lambda fresh: one_task(service.database, task, fresh=fresh),
            is_over=_is_over,
        )
        if ended is None and waiter.closing.is_set():
            return _closing(request, task_id=task)
        if ended is None:
            return _still_open(request, await service.job_now(made.job), task, body.timeout_seconds)
        if ended.state != "completed":
            return _not_had(request, ended)
        seen, page = seen_task(ended)
        return answer(request, seen, **page)

    @router.get(
        "/{task_id}",
        summary="Show a requested page",
        response_model=TaskEnvelope,
        responses={200: example(TASK, **PAGE), **failures(404)},
    )
    async def show_scrape_task(request: Request, task_id: UUID) -> Response:
        """Contains the result once the task is completed; `meta.provenance` has the source of each field."""
        seen, page = seen_task(await one_task(service.database, task_id))
        return answer(request, seen, **page)


def _add_jobs(router: Router, service: Service, waiter: TaskWaiter) -> None:
    @router.post(
        "/batch",
        status_code=202,
        summary="Fetch many pages",
        response_model=Envelope[BatchCreated],
        responses={202: _BATCH_QUEUED, **failures(409, body=True)},
        openapi_extra=body_of(service.pipelines[NAME]),
    )
    async def scrape_batch(request: Request, body: dict[str, Any], idempotency_key: IdempotencyKey = None) -> Response:
        """Accepts 1 to 100 targets; the same page twice is two tasks. Returns 503, and stores nothing, if the queue is
        full."""
        if waiter.closing.is_set():
            return _closing(request)
        _check_size(body)
        made = await service.submit(NAME, body, key=checked_key(idempotency_key))
        data = {"job_id": made.job, "total_tasks": made.total, "status": "queued"}
        return answer(request, data, status=202, headers=None if made.created else REPEATED)

    @router.get(
        "/jobs/{job_id}",
        summary="Show a batch",
        response_model=Envelope[JobSeen],
        responses={200: example(JOB), **failures(404)},
    )
    async def show_scrape_job(request: Request, job_id: UUID) -> Response:
        """Includes the job's counters, which are always exact."""
        return answer(request, await seen_job(service, await job_of(service, job_id)))

    @router.get(
        "/jobs/{job_id}/results",
        summary="Show the results of a batch",
        response_model=Envelope[list[ResultSeen]],
        responses={200: example([RESULT]), **failures(404, 413)},
    )
    async def show_scrape_results(request: Request, job_id: UUID) -> Response:
        """Results of the completed tasks, in the order of the request; more may follow while the job runs. Returns 413
        for a job of more than 10,000 pages: list its pages instead."""
        if (await job_of(service, job_id)).total > MOST_TARGETS:
            message = f"A job of more than {MOST_TARGETS:,} pages is read with GET /api/v1/scrape/jobs/{job_id}/pages."
            return refusal(request.scope, 413, "too_large", message)
        return answer(request, [seen_result(result) for result in await results_of_job(service.database, job_id)])

    @router.post(
        "/jobs/{job_id}/cancel",
        summary="Cancel a batch",
        response_model=Envelope[JobSeen],
        responses={200: example({**JOB, "status": "cancelled"}), **failures(404, 409)},
    )
    async def cancel_scrape_job(request: Request, job_id: UUID) -> Response:
        """Its queued tasks are cancelled. In-flight tasks finish, and their results stay."""
        await job_of(service, job_id)
        await service.ledger.cancel(job_id)
        return answer(request, await seen_job(service, await job_of(service, job_id)))


async def _submit_one(service: Service, body: ScrapeRequest, key: str | None) -> tuple[UUID, Submitted]:
    """Submit a job of one page and return its task. Errors use the field names of the request."""
    try:
        made = await service.submit(NAME, body.job(), key=checked_key(key))
    except Rejected as wrong:
        if type(wrong) is not Rejected:
            raise
        fields = [FieldError(each.field.removeprefix("targets.0."), each.message) for each in wrong.fields]
        raise Rejected("The request is not valid.", fields=fields) from wrong
    return made.first or await first_task(service.database, made.job), made


def _check_size(body: dict[str, Any]) -> None:
    targets = body.get("targets")
    if isinstance(targets, list) and len(targets) > MOST_IN_BATCH:
        told = f"has {len(targets):,} entries; at most {MOST_IN_BATCH} are allowed here (any number: POST /scrape/jobs)"
        raise Rejected("The scrape job is not valid.", fields=[FieldError("targets", told)])


def _is_over(task: ScrapeTaskReport) -> bool:
    return task.state in ENDED or (task.state == "queued" and task.reason in SHORT)


def _still_open(request: Request, job: JobReport, task: UUID, seconds: float) -> Response:
    """Return the response about a page that was not fetched in time: why it waits, if it does, and where to look."""
    late, look = f"The task has not ended within {seconds:g} s", f"GET /api/v1/scrape/{task}"
    if job.state == "paused":
        message = (
            f"{late}: its job is paused ({job.reason or 'by an operator'}). It continues when the job is resumed: "
            f"POST /api/v1/jobs/{job.id}/resume; {look}"
        )
        return refusal(request.scope, 504, "still_running", message, task_id=task, reason="paused")
    if job.waiting is None:
        return refusal(request.scope, 504, "still_running", f"{late}. It continues: {look}", task_id=task)
    message = f"{late}: {job.waiting.message.rstrip('.')}. It continues: {look}"
    reason, until = job.waiting.reason, job.waiting.until
    return refusal(request.scope, 504, "still_running", message, task_id=task, reason=reason, waits_until=until)


def _not_had(request: Request, task: ScrapeTaskReport) -> Response:
    """Return the error response for a page without a result."""
    if task.state == "cancelled":
        return refusal(request.scope, 409, "cancelled", "The task was cancelled.", task_id=task.id)
    reason = shown_reason(task.reason)
    status = STATUS_OF_REASON.get(reason or "", 502)
    return refusal(
        request.scope,
        status,
        reason or "scrape_failed",
        task.error or "The task failed.",
        headers=RETRY_AFTER if status == 503 else None,
        reason=reason,
        task_id=task.id,
    )


def _closing(request: Request, **about: Any) -> Response:
    return refusal(request.scope, 503, "shutting_down", Stopping().message, headers=RETRY_AFTER, **about)


_IDS = {name: TASK[name] for name in ("task_id", "job_id")}
_QUEUED = example({**_IDS, "status": "queued"}, description="It is on disk and will run.")
_BATCH_QUEUED = example(
    {"job_id": JOB["job_id"], "total_tasks": 2, "status": "queued"}, description="It is on disk and will run."
)
_SYNC_FAILURES = failures(403, 409, 502, 504, body=True)
_SYNC_FAILURES[403]["description"] = "robots.txt does not allow this page; `meta.reason` is `robots`."
for _status, _code, _said in (
    (403, ROBOTS, "example.com does not allow this URL."),
    (502, NOT_FOUND, "example.com/jobs/1 has no such page (404)."),
    (503, CIRCUIT_OPEN, "example.com failed too often; it is left alone for another 97 s."),
    (504, TIMED_OUT, "https://example.com: no complete answer in time."),
):
    _SYNC_FAILURES[_status] |= refused(_code, _said, reason=_code, task_id=TASK["task_id"])
