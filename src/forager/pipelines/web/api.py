"""Routes of web search: price it, start it, and show its results with the pages that were read."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import NotFound
from forager.core.states import TaskState
from forager.pipelines.web.job import MOST_PAGES, WebReading
from forager.pipelines.web.pipeline import NAME
from forager.pipelines.web.wiring import WebPlan
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import (
    REPEATED,
    IdempotencyKey,
    JsonRoute,
    Router,
    body_of,
    checked_key,
    example,
    failures,
)
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.queries import job_number, loads, one_row, task_body
from forager.sdk.reports import JobReport
from forager.sdk.service import Service

JobBody = Annotated[dict[str, Any], Body()]
_RESULTS = "SELECT * FROM web_results WHERE job_id = :job ORDER BY position LIMIT :most"
_PAGES = """
SELECT t.state, t.body, t.error, t.reason, r.result, r.from_store FROM tasks_now t
LEFT JOIN scrape_results r ON r.job_id = t.job_id AND r.task_key = t.key
WHERE t.job_id = :job AND t.kind = 'scrape.page'
"""


class WebSearchCreated(BaseModel):
    job_id: UUID
    queries: int = Field(description="Pages of results: each is a query.")
    status: str = Field(examples=["queued"])


class WebPageRead(BaseModel):
    """The page of a result."""

    status: str = Field(description="queued, running, completed, failed or cancelled.")
    markdown: str | None = Field(description="Its main text, if it is completed.")
    stored: bool = Field(description="True if a stored page answered it, without a request: see max_age.")
    error: str | None = Field(description="Why it could not be read.")
    reason: str | None = Field(description="The same as a code.")


class WebHit(BaseModel):
    """One result of a search."""

    position: int
    title: str | None
    url: str
    snippet: str | None
    published: str | None = Field(description="Date as the search engine shows it.")
    page: WebPageRead | None = Field(description="The page, if it was to be read.")


class WebSearchReport(BaseModel):
    """A search with its results."""

    job_id: UUID
    status: str
    query: str
    credits: int = Field(description="Credits spent.")
    read_job: UUID | None = Field(description="The scrape job that reads the results; null if none is to be read.")
    done: bool = Field(description="True once the search has ended and every page that is to be read has.")
    results: list[WebHit]


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/web", tags=["web"], route_class=JsonRoute)
    job_body = body_of(service.pipelines[NAME])

    @router.post(
        "/plan",
        summary="Plan a web search",
        response_model=Envelope[WebPlan],
        responses={200: example(_PLAN), **failures(body=True)},
        openapi_extra=job_body,
    )
    async def plan_web_search(request: Request, body: JobBody) -> Response:
        """Returns what it costs. Spends nothing."""
        return answer(request, await service.estimate(NAME, body))

    @router.post(
        "/searches",
        status_code=202,
        summary="Search the web",
        response_model=Envelope[WebSearchCreated],
        responses={202: example(_CREATED), **failures(409, body=True)},
        openapi_extra=job_body,
    )
    async def search_web(request: Request, body: JobBody, idempotency_key: IdempotencyKey = None) -> Response:
        """Returns as soon as the job is stored. `GET /api/v1/web/searches/{job_id}` has the results, and with `read`
        the pages of the first ones as Markdown."""
        made = await service.submit(NAME, body, key=checked_key(idempotency_key))
        data = {"job_id": made.job, "queries": made.total, "status": "queued"}
        return answer(request, data, status=202, headers=None if made.created else REPEATED)

    @router.get(
        "/searches/{job_id}",
        summary="Show a web search",
        response_model=Envelope[WebSearchReport],
        responses={200: example(_SEARCH), **failures(404)},
    )
    async def show_web_search(request: Request, job_id: UUID) -> Response:
        """Lists the results in their order, each with its page as far as it has been read."""
        return answer(request, await _report(service, job_id))

    return router


async def _report(service: Service, job_id: UUID) -> WebSearchReport:
    job = await service.reports.job(job_id)
    if job.pipeline != NAME:
        raise NotFound(f"There is no web search {job_id}.")
    reading = await one_row(service.database, WebReading, search=str(job.params.get("search")))
    pages: dict[str, WebPageRead] = {}
    ended = job.finished_at is not None
    if reading is not None:
        pages = await _pages(service, UUID(reading.job))
        ended = ended and all(page.status not in ("queued", "running") for page in pages.values())
    rows = await service.database.fetch(
        _RESULTS, {"job": await job_number(service.database, job_id), "most": 2 * 10 * MOST_PAGES}
    )
    return WebSearchReport(
        job_id=job_id,
        status=job.state,
        query=_query(job),
        credits=job.spent,
        read_job=UUID(reading.job) if reading is not None else None,
        done=ended,
        results=[
            WebHit(
                position=int(row["position"]),
                title=row["title"],
                url=row["url"],
                snippet=row["snippet"],
                published=row["published"],
                page=pages.get(row["url"]),
            )
            for row in rows
        ],
    )


def _query(job: JobReport) -> str:
    return str(job.params.get("query", ""))


async def _pages(service: Service, job: UUID) -> dict[str, WebPageRead]:
    """Return the pages of the scrape job by their address."""
    rows = await service.database.fetch(_PAGES, {"job": await job_number(service.database, job)})
    pages: dict[str, WebPageRead] = {}
    for row in rows:
        body = task_body(row["body"])
        completed = row["state"] == TaskState.COMPLETED and row["result"] is not None
        pages[body["target_url"] if isinstance(body, dict) else ""] = WebPageRead(
            status=TaskState(row["state"]).public(),
            markdown=loads(row["result"]).get("markdown") if completed else None,
            stored=bool(row["from_store"]),
            error=None if completed else row["error"],
            reason=None if completed else row["reason"],
        )
    return pages


_PLAN = {
    "queries": 1,
    "read": 3,
    "worst_credits": 1,
    "expected_credits": 1,
    "price_per_1000_usd": "0.30",
    "worst_usd": "0.0003",
    "expected_usd": "0.0003",
}
_CREATED = {"job_id": "3b8a1f07-9c55-4d7e-a1b2-5f0e8c7d6a21", "queries": 1, "status": "queued"}
_SEARCH: dict[str, Any] = {
    "job_id": _CREATED["job_id"],
    "status": "completed",
    "query": "oak table care",
    "credits": 1,
    "read_job": "7c1d2e3f-0a1b-4c2d-8e3f-4a5b6c7d8e9f",
    "done": True,
    "results": [
        {
            "position": 1,
            "title": "How to care for an oak table",
            "url": "https://wood.example/care",
            "snippet": "Oil it twice a year …",
            "published": "14 Mar 2026",
            "page": {
                "status": "completed",
                "markdown": "# How to care for an oak table\n\nOil it twice a year.",
                "stored": False,
                "error": None,
                "reason": None,
            },
        }
    ],
}
