"""Routes of the scrape pipeline, as its specification prescribes: one page now or later, a batch, and their results."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, NotFound, Rejected, Stopping
from forager.core.ledger import PartsReceived, Submitted
from forager.core.waiting import Waiting
from forager.pipelines.scrape.api_bodies import (
    JOB,
    KIND,
    PAGE,
    RESULT,
    TASK,
    BatchCreated,
    FirstPart,
    JobSeen,
    NextPart,
    PartReceived,
    ScrapeKind,
    TaskCreated,
)
from forager.pipelines.scrape.api_schemas import schema_routes
from forager.pipelines.scrape.describe import usd
from forager.pipelines.scrape.job import MOST_IN_BATCH, MOST_TARGETS, ScrapeRequest
from forager.pipelines.scrape.pipeline import NAME
from forager.pipelines.scrape.reasons import (
    CIRCUIT_OPEN,
    NO_HEALTHY_PROXIES,
    NOT_FOUND,
    POOL_EXHAUSTED,
    ROBOTS,
    TIMED_OUT,
)
from forager.pipelines.scrape.reports import (
    ScrapedPage,
    ScrapeResult,
    ScrapeTaskReport,
    first_task,
    one_task,
    pages_of_job,
    results_of_job,
)
from forager.pipelines.scrape.wiring import extractors_of
from forager.sdk.http.envelope import Envelope, ResponseMeta, ResultPage, answer, page, refusal
from forager.sdk.http.routes import (
    REPEATED,
    IdempotencyKey,
    JsonRoute,
    KeyUntilEnd,
    PageQuery,
    Router,
    body_of,
    checked_key,
    example,
    failures,
    refused,
)
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.reports import JobReport
from forager.sdk.service import Service

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


class AboutResult(ResponseMeta):
    provenance: dict[str, Any] | None = Field(
        default=None, description="Source of each field that was found: page, location and confidence."
    )
    page_url: str | None = Field(default=None, description="URL after redirects.")
    pages: list[str] | None = Field(default=None, description="Every page that was read.")
    rendered: bool | None = Field(default=None, description="Rendered by a browser.")
    fetched_at: datetime | None = Field(default=None, description="Time of the fetch.")
    stored: bool | None = Field(
        default=None, description="True if a stored page answered it, without a request: see max_age."
    )


class TaskEnvelope(Envelope[ScrapeTaskReport]):
    meta: AboutResult


def routes(service: Service, waiter: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/scrape", tags=["scrape"])
    _add_kinds(router, service)
    _add_jobs(router, service, waiter)
    _add_parts(router, service)
    one_page = Router(prefix="/api/v1/scrape", tags=["scrape"], route_class=_complete_refusals(service))
    _add_tasks(one_page, service, waiter)
    router.routes.extend(one_page.routes)
    router.routes.extend(schema_routes(service).routes)
    return router


def _complete_refusals(service: Service) -> type[JsonRoute]:
    """Return a route class whose refusals of one page also name what only the extractors reveal, such as a field that
    the target type does not have: the caller corrects all in one round."""

    class OnePageRoute(JsonRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            run = super().get_route_handler()

            async def complete(request: Request) -> Response:
                try:
                    return await run(request)
                except RequestValidationError as refused:
                    if not isinstance(refused.body, dict):
                        raise
                    further = await _further_mistakes(service, refused.body)
                    known = {error["loc"][1:2] for error in refused.errors()}
                    errors = [
                        *refused.errors(),
                        *(
                            {"type": "value_error", "loc": ("body", *path), "msg": message, "ctx": {"error": message}}
                            for path, message in further
                            if path[:1] not in known
                        ),
                    ]
                    raise RequestValidationError(errors, body=refused.body) from None

            return complete

    return OnePageRoute


async def _further_mistakes(service: Service, body: dict[str, Any]) -> list[tuple[tuple[str, ...], str]]:
    """Return what is wrong with the target of a request that is not valid, by field. Nothing is stored."""
    target = {name: value for name, value in body.items() if name not in ("callback_url", "max_usd", "timeout_seconds")}
    try:
        await service.estimate(NAME, {"targets": [target], "single": True})
    except Rejected as wrong:
        places = ((each.field.split("."), each.message) for each in wrong.fields)
        return [(tuple(path[2:]), message) for path, message in places if path[:2] == ["targets", "0"] and path[2:]]
    return []


def _add_kinds(router: Router, service: Service) -> None:
    known = extractors_of(service.settings)

    @router.get(
        "/kinds",
        summary="List the kinds of pages that can be requested",
        response_model=Envelope[list[ScrapeKind]],
        responses={200: example([KIND]), **failures()},
    )
    async def list_scrape_kinds(request: Request) -> Response:
        """With the fields of each: those that ship, and those of plug-ins."""
        kinds = [
            ScrapeKind(
                name=each.name,
                fields=list(each.output.model_fields),
                by_default=list(each.by_default or each.output.model_fields),
            )
            for each in known
        ]
        return answer(request, kinds)


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
            job = await service.job_now(made.job)
            return _still_open(request, job, await service.why_late(job, task), task, body.timeout_seconds)
        if ended.status != "completed":
            return _no_result(request, ended)
        return _with_source(request, ended)

    @router.get(
        "/{task_id}",
        summary="Show a requested page",
        response_model=TaskEnvelope,
        responses={200: example(TASK, **PAGE), **failures(404)},
    )
    async def show_scrape_task(request: Request, task_id: UUID) -> Response:
        """Contains the result once the task is completed; `meta.provenance` has the source of each field."""
        return _with_source(request, await one_task(service.database, task_id))


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
        return answer(request, await _counters(service, await _job(service, job_id)))

    @router.get(
        "/jobs/{job_id}/results",
        summary="Show the results of a batch",
        response_model=Envelope[list[ScrapeResult]],
        responses={200: example([RESULT]), **failures(404, 413)},
    )
    async def show_scrape_results(request: Request, job_id: UUID) -> Response:
        """Results of the completed tasks, in the order of the request; more may follow while the job runs. Returns 413
        for a job of more than 10,000 pages: list its pages instead."""
        if (await _job(service, job_id)).total > MOST_TARGETS:
            message = f"A job of more than {MOST_TARGETS:,} pages is read with GET /api/v1/scrape/jobs/{job_id}/pages."
            return refusal(request.scope, 413, "too_large", message)
        return answer(request, await results_of_job(service.database, job_id))

    @router.post(
        "/jobs/{job_id}/cancel",
        summary="Cancel a batch",
        response_model=Envelope[JobSeen],
        responses={200: example({**JOB, "status": "cancelled"}), **failures(404, 409)},
    )
    async def cancel_scrape_job(request: Request, job_id: UUID) -> Response:
        """Its queued tasks are cancelled. In-flight tasks finish, and their results stay."""
        await _job(service, job_id)
        await service.ledger.cancel(job_id)
        return answer(request, await _counters(service, await _job(service, job_id)))


def _add_parts(router: Router, service: Service) -> None:
    @router.post(
        "/jobs",
        status_code=202,
        summary="Fetch any number of pages",
        response_model=Envelope[PartReceived],
        responses={202: _RECEIVED, **failures(409, body=True)},
    )
    async def create_scrape_job(request: Request, body: FirstPart, idempotency_key: KeyUntilEnd = None) -> Response:
        """A list that is too long for one request is sent in parts: `more` keeps the job open for them, and nothing is
        fetched before the last part. A job of which no part has arrived for a minute is removed.

        The `Idempotency-Key` names the job until it has ended: the same request returns the job and how much of it was
        received, so that an interrupted sender can continue."""
        key, about = checked_key(idempotency_key), body.model_dump(include={"callback_url", "source", "max_usd"})
        if not body.more:
            made = await service.submit(NAME, {"targets": body.targets, **about}, key=key, until_end=True)
            return _answered(request, made, created=made.created)
        opened = await service.open_job(NAME, about, {"targets": body.targets}, key=key)
        return _answered(request, opened, created=opened.created)

    @router.post(
        "/jobs/{job_id}/targets",
        status_code=202,
        summary="Add pages to a job in parts",
        response_model=Envelope[PartReceived],
        responses={202: _RECEIVED, **failures(404, 409, body=True)},
    )
    async def add_scrape_targets(request: Request, job_id: UUID, body: NextPart) -> Response:
        """Only for a job that was created with `more`. Targets that it has already are left out, so a part can be sent
        again if its answer was lost. Returns 409 if an earlier part is missing."""
        await _job(service, job_id)
        added = await service.add_part(job_id, NAME, {"targets": body.targets}, body.first, more=body.more)
        return _answered(request, added, created=True)

    @router.get(
        "/jobs/{job_id}/pages",
        summary="List the pages of a job",
        response_model=ResultPage[ScrapedPage],
        responses={200: example([{**TASK, "meta": PAGE}], next_cursor=None), **failures(404)},
    )
    async def list_scrape_pages(request: Request, job_id: UUID, asked: Annotated[PageQuery, Query()]) -> Response:
        """Every page with its state, its result or its error, in the order of the request."""
        await _job(service, job_id)
        listed = await pages_of_job(service.database, job_id, cursor=asked.cursor, limit=asked.limit)
        return page(request, listed.items, listed.next_cursor)


def _answered(request: Request, stored: PartsReceived | Submitted, *, created: bool) -> Response:
    is_open = isinstance(stored, PartsReceived) and stored.is_open
    data = {"job_id": stored.job, "total_tasks": stored.total, "status": "receiving" if is_open else "queued"}
    return answer(request, data, status=202, headers=None if created else REPEATED)


async def _job(service: Service, job_id: UUID) -> JobReport:
    try:
        job = await service.reports.job(job_id)
    except NotFound:
        job = None
    if job is None or job.pipeline != NAME:
        raise NotFound(f"There is no scrape job {job_id}.")
    return job


async def _counters(service: Service, job: JobReport) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "status": job.state,
        "total_tasks": job.total,
        "completed_tasks": job.completed,
        "failed_tasks": job.failed,
        "queued_tasks": job.queued,
        "running_tasks": job.running,
        "cancelled_tasks": job.cancelled,
        "skipped_tasks": job.skipped,
        "callback_url": job.params.get("callback_url"),
        "spent_usd": usd(job.spent),
        "max_usd": None if job.max_cost is None else usd(job.max_cost),
        "created_at": job.created_at,
        "updated_at": await service.reports.last_moved(job.id) or job.finished_at or job.created_at,
        "finished_at": job.finished_at,
    }


def _with_source(request: Request, page: ScrapedPage) -> Response:
    """Return a page whose source is part of the response's `meta`."""
    return answer(request, page.model_dump(exclude={"meta"}), **(page.meta.model_dump() if page.meta else {}))


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
        problem = (
            f"has {len(targets):,} entries; at most {MOST_IN_BATCH} are allowed here (any number: POST /scrape/jobs)"
        )
        raise Rejected("The scrape job is not valid.", fields=[FieldError("targets", problem)])


def _is_over(task: ScrapedPage) -> bool:
    return task.status in ENDED or (task.status == "queued" and task.reason in SHORT)


def _still_open(request: Request, job: JobReport, waiting: Waiting | None, task: UUID, seconds: float) -> Response:
    """Return the response about a page that was not fetched in time: why it waits, if it does, and where to look."""
    late, look = f"The task has not ended within {seconds:g} s", f"GET /api/v1/scrape/{task}"
    if job.state == "paused":
        message = (
            f"{late}: its job is paused ({job.reason or 'by an operator'}). It continues when the job is resumed: "
            f"POST /api/v1/jobs/{job.id}/resume; {look}"
        )
        return refusal(request.scope, 504, "still_running", message, task_id=task, reason="paused")
    if waiting is None:
        return refusal(request.scope, 504, "still_running", f"{late}. It continues: {look}", task_id=task)
    message = f"{late}: {waiting.message.rstrip('.')}. It continues: {look}"
    reason, until = waiting.reason, waiting.until
    return refusal(request.scope, 504, "still_running", message, task_id=task, reason=reason, waits_until=until)


def _no_result(request: Request, task: ScrapedPage) -> Response:
    """Return the error response for a page without a result."""
    if task.status == "cancelled":
        return refusal(request.scope, 409, "cancelled", "The task was cancelled.", task_id=task.task_id)
    status = STATUS_OF_REASON.get(task.reason or "", 502)
    return refusal(
        request.scope,
        status,
        task.reason or "scrape_failed",
        task.error or "The task failed.",
        headers=RETRY_AFTER if status == 503 else None,
        reason=task.reason,
        task_id=task.task_id,
    )


def _closing(request: Request, **about: Any) -> Response:
    return refusal(request.scope, 503, "shutting_down", Stopping().message, headers=RETRY_AFTER, **about)


_IDS = {name: TASK[name] for name in ("task_id", "job_id")}
_QUEUED = example({**_IDS, "status": "queued"}, description="It is on disk and will run.")
_BATCH_QUEUED = example(
    {"job_id": JOB["job_id"], "total_tasks": 2, "status": "queued"}, description="It is on disk and will run."
)
_RECEIVED = example(
    {"job_id": JOB["job_id"], "total_tasks": 10_000, "status": "receiving"}, description="These pages are on disk."
)
_SYNC_FAILURES = failures(403, 409, 502, 504, body=True)
_SYNC_FAILURES[403]["description"] = "robots.txt does not allow this page; `meta.reason` is `robots`."
for _status, _code, _message in (
    (403, ROBOTS, "example.com does not allow this URL."),
    (502, NOT_FOUND, "example.com/jobs/1 has no such page (404)."),
    (503, CIRCUIT_OPEN, "example.com failed too often; it is left alone for another 97 s."),
    (504, TIMED_OUT, "https://example.com: no complete answer in time."),
):
    _SYNC_FAILURES[_status] |= refused(_code, _message, reason=_code, task_id=TASK["task_id"])
