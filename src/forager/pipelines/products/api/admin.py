"""The admin routes: create and control crawl jobs, pause domains, recrawl pages at once."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Query
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.recheck import Interval
from forager.extract.text.prices import is_currency
from forager.pipelines.products.api.examples import CRAWL_JOB, CRAWL_TASK, DOMAIN
from forager.pipelines.products.job import USUAL, PageUrl, turn_of
from forager.pipelines.products.pipeline import NAME, priority_of
from forager.pipelines.products.reports import catalogue, domains
from forager.pipelines.products.reports.catalogue import CrawlTaskReport, SolePage, Status, crawl_tasks, stored_pages
from forager.pipelines.products.reports.domains import DomainReport, submit_crawl
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import REPEATED, IdempotencyKey, PageQuery, body_of, checked_key, example, failures
from forager.sdk.reports import JobReport, TaskReport
from forager.sdk.service import Service

STOPPED = "stopped"
MOST_ERRORS = 20
DomainId = Annotated[int, InPath(ge=1, lt=1 << 63)]


class CrawlJobCreated(BaseModel):
    job_id: UUID
    status: str = Field(description="queued, also in a repeat: the job itself shows its state now.")
    total: int = Field(description="Tasks that are known at once; a sitemap and links bring more.")


class CrawlJobSeen(BaseModel):
    """The state of a crawl, with its newest errors."""

    job: JobReport
    priority: int = Field(description="1 is the highest, 10 the lowest.")
    errors: list[TaskReport] = Field(description="Some of its pages that failed, each with its reason.")
    page: SolePage | None = Field(description="The result of its page, once a job of one page has ended.")


class PriorityBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"priority": 1}]})

    priority: int = Field(ge=1, le=10, strict=True, description="1 is the highest, 10 the lowest.", examples=[1])


class RecrawlBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"urls": ["https://shop.example/products/kettle"]}]}
    )

    urls: list[PageUrl] = Field(min_length=1, max_length=10_000, description="Pages to crawl at once.")


class CrawlTasksQuery(PageQuery):
    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Status | None = Field(default=None, description="Only tasks in this state.")
    domain: str | None = Field(
        default=None, max_length=255, description="Only of this shop.", examples=["shop.example"]
    )


class DomainBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"currency": "EUR", "crawl_frequency": 86_400},
                {"crawl_delay_seconds": 2, "max_concurrent_requests": 3, "is_active": True},
            ]
        },
    )

    currency: str | None = Field(default=None, pattern="^[A-Z]{3}$", description="ISO 4217; null takes it back.")
    crawl_frequency: Interval | None = Field(
        default=None, description="Time between two crawls of a page: seconds, or a text such as `6h`."
    )
    crawl_delay_seconds: float | None = Field(
        default=None, ge=0, le=86_400, strict=True, description="Minimum time between two requests; null takes it back."
    )
    max_concurrent_requests: int | None = Field(
        default=None, ge=1, le=100_000, strict=True, description="Maximum requests in flight; null takes it back."
    )
    is_active: bool = Field(default=True, strict=True, description="false pauses the domain, true resumes it.")


def add_admin(router: APIRouter, service: Service) -> None:
    """Add the admin routes."""
    _add_creating(router, service)
    _add_controls(router, service)
    _add_domains(router, service)


def _add_creating(router: APIRouter, service: Service) -> None:
    @router.post(
        "/admin/crawl-jobs",
        status_code=202,
        summary="Crawl pages, a sitemap or a site",
        response_model=Envelope[CrawlJobCreated],
        responses={202: _CREATED, **failures(409, body=True)},
        openapi_extra=body_of(service.pipelines[NAME]),
    )
    async def create_crawl_job(
        request: Request, body: Annotated[dict[str, Any], Body()], idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Returns as soon as the job is on disk. A repeat with the same `Idempotency-Key` returns the same job."""
        made = await submit_crawl(service, body, checked_key(idempotency_key))
        data = {"job_id": made.job, "status": "queued", "total": made.total}
        return answer(request, data, status=202, headers=None if made.created else REPEATED)

    @router.post(
        "/admin/urls/recrawl",
        status_code=202,
        summary="Crawl pages at once",
        response_model=Envelope[CrawlJobCreated],
        responses={202: _CREATED, **failures(body=True)},
    )
    async def recrawl_urls(request: Request, body: RecrawlBody) -> Response:
        """Before everything else of their shops. A page that is being crawled already is not crawled twice; its own
        priority, frequency and way of fetching stay as they are."""
        stored = await stored_pages(service.database, body.urls)
        made = await submit_crawl(service, {"urls": body.urls, "priority": 1, "stored": stored})
        return answer(request, {"job_id": made.job, "status": "queued", "total": made.total}, status=202)


def _add_controls(router: APIRouter, service: Service) -> None:
    @router.get("/admin/crawl-jobs", summary="List crawl jobs", **_JOBS)
    async def list_crawl_jobs(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        """Newest first."""
        jobs = await service.reports.jobs(pipeline=NAME, cursor=asked.cursor, limit=asked.limit)
        return page(request, jobs.items, jobs.next_cursor)

    @router.get("/admin/crawl-jobs/{job_id}", summary="Show a crawl job", **_JOB)
    async def show_crawl_job(request: Request, job_id: UUID) -> Response:
        """With its counters, which are exact at every moment, and some of its errors."""
        return answer(request, await _seen(service, job_id))

    @router.patch("/admin/crawl-jobs/{job_id}", summary="Change the priority of a crawl job", **_JOB)
    async def prioritise_crawl_job(request: Request, job_id: UUID, body: PriorityBody) -> Response:
        """It takes effect at once: what is in flight ends, what is leased next follows the new order."""
        await _own(service, job_id)
        await service.ledger.prioritise(job_id, turn_of(body.priority))
        return answer(request, await _seen(service, job_id))

    @router.post("/admin/crawl-jobs/{job_id}/pause", summary="Pause a crawl job", **_JOB)
    async def pause_crawl_job(request: Request, job_id: UUID) -> Response:
        """Running pages end; none new starts until the job is resumed."""
        await _own(service, job_id)
        await service.ledger.pause(job_id)
        return answer(request, await _seen(service, job_id))

    @router.post("/admin/crawl-jobs/{job_id}/stop", summary="Stop a crawl job", **_JOB)
    async def stop_crawl_job(request: Request, job_id: UUID) -> Response:
        """As a pause, with the reason `stopped`; resume starts it again."""
        await _own(service, job_id)
        await service.ledger.pause(job_id, STOPPED)
        return answer(request, await _seen(service, job_id))

    @router.post("/admin/crawl-jobs/{job_id}/resume", summary="Resume a crawl job", **_JOB)
    async def resume_crawl_job(request: Request, job_id: UUID) -> Response:
        await _own(service, job_id)
        await service.ledger.resume(job_id)
        return answer(request, await _seen(service, job_id))

    @router.post("/admin/crawl-jobs/{job_id}/cancel", summary="Cancel a crawl job", **_JOB)
    async def cancel_crawl_job(request: Request, job_id: UUID) -> Response:
        """Final: its queued pages are ended. Products stay."""
        await _own(service, job_id)
        await service.ledger.cancel(job_id)
        return answer(request, await _seen(service, job_id))

    @router.get(
        "/admin/crawl-tasks",
        summary="List the URLs that are crawled",
        response_model=ResultPage[CrawlTaskReport],
        responses={200: example([CRAWL_TASK], next_cursor=None), **failures()},
    )
    async def list_crawl_tasks(request: Request, asked: Annotated[CrawlTasksQuery, Query()]) -> Response:
        """One row for each URL, the one that was queued last first. A page may be short, even empty, and still have a
        next one."""
        found = await crawl_tasks(service.database, **asked.model_dump())
        return page(request, found.items, found.next_cursor)


def _add_domains(router: APIRouter, service: Service) -> None:
    @router.get(
        "/admin/domains",
        summary="List domains",
        response_model=ResultPage[DomainReport],
        responses={200: example([DOMAIN], next_cursor=None), **failures()},
    )
    async def list_domains(request: Request, asked: Annotated[PageQuery, Query()]) -> Response:
        found = await domains.list_domains(service.database, cursor=asked.cursor, limit=asked.limit)
        return page(request, found.items, found.next_cursor)

    @router.patch("/admin/domains/{domain_id}", summary="Change a domain", **_DOMAIN)
    async def change_domain(request: Request, domain_id: DomainId, body: DomainBody) -> Response:
        """Changes the fields in the body, at once: currency, crawl frequency, delay, requests in flight, and whether it
        is crawled. Pages with a frequency of their own keep it."""
        if not body.model_fields_set:
            problem = FieldError("body", f"name at least one of {', '.join(DomainBody.model_fields)}")
            raise Rejected("There is nothing to change.", fields=[problem])
        if body.currency is not None and not is_currency(body.currency):
            problem = FieldError("currency", "is not an ISO 4217 code, such as EUR")
            raise Rejected(f"currency: {body.currency} {problem.message}.", fields=[problem])
        changes = {name: getattr(body, name) for name in body.model_fields_set}
        return answer(request, await _changed(service, domain_id, changes))

    @router.post("/admin/domains/{domain_id}/pause", summary="Pause a domain", **_DOMAIN)
    async def pause_domain(request: Request, domain_id: DomainId) -> Response:
        """Running pages end; none new starts until the domain is resumed."""
        return answer(request, await _switched(service, domain_id, active=False))

    @router.post("/admin/domains/{domain_id}/resume", summary="Resume a domain", **_DOMAIN)
    async def resume_domain(request: Request, domain_id: DomainId) -> Response:
        return answer(request, await _switched(service, domain_id, active=True))


async def _changed(service: Service, domain_id: int, changes: dict[str, Any]) -> DomainReport:
    domain = await domains.one_domain(service.database, domain_id)
    if rules := {name: value for name, value in changes.items() if name in _RULES}:
        await service.set_rules(domain.domain_name, rules)
    if "is_active" in changes:
        await service.switch_lane(domain.domain_name, active=changes["is_active"])
    return await domains.change_domain(service.database, domain_id, changes, await service.ledger.now_ms())


async def _switched(service: Service, domain_id: int, *, active: bool) -> DomainReport:
    domain = await domains.one_domain(service.database, domain_id)
    await service.switch_lane(domain.domain_name, active=active)
    return await domains.one_domain(service.database, domain_id)


async def _own(service: Service, job_id: UUID) -> JobReport:
    """Raises `NotFound` for a job of another pipeline."""
    job = await service.reports.job(job_id)
    if job.pipeline != NAME:
        raise NotFound(f"There is no crawl job {job_id}.")
    return job


async def _seen(service: Service, job_id: UUID) -> CrawlJobSeen:
    job = await _own(service, job_id)
    errors = await service.reports.tasks(job_id, state="failed", limit=MOST_ERRORS) if job.failed else None
    turn = await catalogue.turn_of_job(service.database, job_id)
    priority = priority_of(turn, int(job.params.get("priority", USUAL)))
    sole = await catalogue.sole_page(service, job)
    return CrawlJobSeen(job=job, priority=priority, errors=errors.items if errors else [], page=sole)


_RULES = ("crawl_delay_seconds", "max_concurrent_requests")
_CREATED = example(
    {"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11", "status": "queued", "total": 1},
    description="The job is on disk.",
)
_JOB: dict[str, Any] = {
    "response_model": Envelope[CrawlJobSeen],
    "responses": {200: example(CRAWL_JOB), **failures(404, 409)},
}
_JOBS: dict[str, Any] = {
    "response_model": ResultPage[JobReport],
    "responses": {200: example([CRAWL_JOB["job"]], next_cursor=None), **failures()},
}
_DOMAIN: dict[str, Any] = {
    "response_model": Envelope[DomainReport],
    "responses": {200: example(DOMAIN), **failures(404, body=True)},
}
