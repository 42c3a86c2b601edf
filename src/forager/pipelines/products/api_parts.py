"""Routes for lists of pages of any size: they arrive in parts, and are crawled as one job."""

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import NotFound
from forager.core.ledger import Received
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import REPEATED, KeyUntilEnd, checked_key
from forager.kit.service import Service
from forager.pipelines.products import reports_domains
from forager.pipelines.products.job import MOST_IN_PART, CrawlJob
from forager.pipelines.products.parts import CrawlJobInParts
from forager.pipelines.products.pipeline import NAME

URL = "https://shop.example/p/oak-table-7"


class UrlsReceived(BaseModel):
    job_id: UUID
    total: int = Field(description="Different pages received so far. The next part begins at this position.")
    status: str = Field(
        description="`receiving` while more parts are expected; `queued` once the last one is stored.",
        examples=["receiving"],
    )


class FirstUrls(CrawlJobInParts):
    """A crawl, and the first of its pages."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"urls": [URL], "more": True, "source": "tables.txt", "frequency": 21_600}]}
    )

    urls: list[str] = Field(min_length=1, max_length=MOST_IN_PART, description="Pages.")
    more: StrictBool = Field(default=False, description="Whether more parts follow. The last one starts the job.")


class NextUrls(BaseModel):
    """Further pages of a crawl."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"urls": [URL], "first": 1, "more": False}]}
    )

    urls: list[str] = Field(min_length=1, max_length=MOST_IN_PART, description="Pages.")
    first: int = Field(
        strict=True, ge=0, le=10**9, description="Position of the first of these pages: the `total` of the last answer."
    )
    more: StrictBool = Field(default=False, description="Whether more parts follow. The last one starts the job.")


def add_parts(router: APIRouter, service: Service) -> None:
    """Add the routes."""

    @router.post(
        "/admin/crawl-jobs/in-parts",
        status_code=202,
        summary="Crawl any number of pages",
        response_model=Envelope[UrlsReceived],
        responses={202: _RECEIVED, **failures(409, body=True)},
    )
    async def create_crawl_job_in_parts(
        request: Request, body: FirstUrls, idempotency_key: KeyUntilEnd = None
    ) -> Response:
        """A list that is too long for one request is sent in parts: `more` keeps the job open for them, and nothing is
        fetched before the last part. A job of which no part has arrived for a minute is removed.

        The `Idempotency-Key` names the job until it has ended: the same request returns the job and how much of it was
        received, so that an interrupted sender can continue."""
        key, about = checked_key(idempotency_key), body.model_dump(mode="json", exclude={"urls", "more"})
        part = await _part(service, about, body.urls)
        stored = await service.open_job(NAME, about, part, key=key, more=body.more)
        await _remember(service, part)
        return _answered(request, stored, created=stored.created)

    @router.post(
        "/admin/crawl-jobs/{job_id}/urls",
        status_code=202,
        summary="Add pages to a crawl job in parts",
        response_model=Envelope[UrlsReceived],
        responses={202: _RECEIVED, **failures(404, 409, body=True)},
    )
    async def add_crawl_urls(request: Request, job_id: UUID, body: NextUrls) -> Response:
        """Only for a job that was created with `more`. Pages that it has already are left out, so a part can be sent
        again if its answer was lost. Returns 409 if an earlier part is missing."""
        job = await service.reports.job(job_id)
        if job.pipeline != NAME:
            raise NotFound(f"There is no crawl job {job_id}.")
        part = await _part(service, job.params, body.urls)
        added = await service.add_part(job_id, NAME, part, body.first, more=body.more)
        await _remember(service, part)
        return _answered(request, added, created=True)


async def _part(service: Service, about: dict[str, Any], urls: list[str]) -> dict[str, Any]:
    """Return these pages as a job of their own, with the options of the whole one and the frequencies of their shops.
    An invalid page is left for the submission to refuse."""
    options = {name: value for name, value in about.items() if name in CrawlJob.model_fields}
    part = {**options, "urls": urls}
    try:
        valid = CrawlJob.model_validate(part)
    except ValidationError:
        return part
    return {**part, "domain_frequencies": await reports_domains.frequencies_of(service.database, valid.urls)}


async def _remember(service: Service, part: dict[str, Any]) -> None:
    """Make a row for each shop that has none yet."""
    await reports_domains.remember_domains(service.database, part["urls"], await service.ledger.now_ms())


def _answered(request: Request, stored: Received, *, created: bool) -> Response:
    data = {"job_id": stored.job, "total": stored.total, "status": "receiving" if stored.is_open else "queued"}
    return answer(request, data, status=202, headers=None if created else REPEATED)


_RECEIVED = example(
    {"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11", "total": 10_000, "status": "receiving"},
    description="These pages are on disk.",
)
