"""Routes for scrape jobs of any size: a list of pages arrives in parts, and is read back page by page."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from starlette.requests import Request
from starlette.responses import Response

from forager.core.ledger import Received, Submitted
from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import REPEATED, KeyUntilEnd, PageQuery, checked_key
from forager.kit.http.routes import Router
from forager.kit.service import Service
from forager.pipelines.scrape.api_bodies import PageListed, PartReceived, job_of, seen_listed
from forager.pipelines.scrape.examples import JOB, PAGE, TASK
from forager.pipelines.scrape.pipeline import NAME
from forager.pipelines.scrape.reports import pages_of_job

TARGET: dict[str, Any] = {
    "target_type": "company_website",
    "target_url": "https://example.com/",
    "workspace_id": "acme",
}


class Part(BaseModel):
    """Some targets of a job."""

    model_config = ConfigDict(extra="forbid")

    targets: list[dict[str, Any]] = Field(
        description="1 to 10,000 pages, each with the fields of a target of `POST /api/v1/scrape/batch`.",
        min_length=1,
    )
    more: StrictBool = Field(default=False, description="Whether more parts follow. The last one starts the job.")


class FirstPart(Part):
    """A job, and the first of its targets."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [TARGET], "more": True}]})

    callback_url: str | None = Field(default=None, description="Notified when the job ends.")
    source: str | None = Field(
        default=None, max_length=200, description="Name of the list that the pages come from. Lists of jobs show it."
    )


class NextPart(Part):
    """Further targets of a job."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [TARGET], "first": 1, "more": False}]})

    first: int = Field(
        strict=True, ge=0, le=10**9, description="Position of the first of these targets in the job, from 0."
    )


def add_parts(router: Router, service: Service) -> None:
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
        key, about = checked_key(idempotency_key), {"callback_url": body.callback_url, "source": body.source}
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
        await job_of(service, job_id)
        added = await service.add_part(job_id, NAME, {"targets": body.targets}, body.first, more=body.more)
        return _answered(request, added, created=True)

    @router.get(
        "/jobs/{job_id}/pages",
        summary="List the pages of a job",
        response_model=Page[PageListed],
        responses={200: example([{**TASK, "meta": PAGE}], next_cursor=None), **failures(404)},
    )
    async def list_scrape_pages(request: Request, job_id: UUID, asked: Annotated[PageQuery, Query()]) -> Response:
        """Every page with its state, its result or its error, in the order of the request."""
        await job_of(service, job_id)
        listed = await pages_of_job(service.database, job_id, cursor=asked.cursor, limit=asked.limit)
        return page(request, [seen_listed(each) for each in listed.items], listed.next_cursor)


def _answered(request: Request, stored: Received | Submitted, *, created: bool) -> Response:
    is_open = isinstance(stored, Received) and stored.is_open
    data = {"job_id": stored.job, "total_tasks": stored.total, "status": "receiving" if is_open else "queued"}
    return answer(request, data, status=202, headers=None if created else REPEATED)


_RECEIVED = example(
    {"job_id": JOB["job_id"], "total_tasks": 10_000, "status": "receiving"}, description="These pages are on disk."
)
