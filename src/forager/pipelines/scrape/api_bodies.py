"""Bodies of the scrape routes other than the reports, and examples for the OpenAPI document. Declarations only."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from forager.pipelines.scrape.job import MaxUsd

JobStatus = Literal["queued", "running", "paused", "completed", "partially_completed", "failed", "cancelled"]


class TaskCreated(BaseModel):
    task_id: UUID
    job_id: UUID = Field(description="A single page is a job of one.")
    status: Literal["queued"]


class BatchCreated(BaseModel):
    job_id: UUID
    total_tasks: int
    status: Literal["queued"]


class ScrapeKind(BaseModel):
    """A kind of page that can be requested."""

    name: str = Field(description="Allowed value of `target_type`.")
    fields: list[str] = Field(description="Allowed names in `requested_fields`.")
    by_default: list[str] = Field(description="The fields that are returned if a request names none.")


class PartReceived(BaseModel):
    job_id: UUID
    total_tasks: int = Field(description="Number of pages received. The next part begins at this position.")
    status: Literal["receiving", "queued"] = Field(
        description="`receiving` while more parts are expected; `queued` once the last one is stored."
    )


class JobSeen(BaseModel):
    job_id: UUID
    status: JobStatus
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    queued_tasks: int
    running_tasks: int
    cancelled_tasks: int
    skipped_tasks: int = Field(description="Tasks that `max_usd` did not pay for.")
    callback_url: str | None
    spent_usd: Decimal = Field(description="Cost of described fields until now, in USD.")
    max_usd: Decimal | None = Field(description="Budget for described fields; null: none.")
    created_at: datetime
    updated_at: datetime = Field(description="Time of the last event of the job.")
    finished_at: datetime | None


# Example bodies for the OpenAPI document. The figures are consistent with one another: they describe one job.


FIELDS = {"job_title": "Bar Manager", "company_name": "Still", "salary_range": "USD 50,000–60,000 per year"}
TASK: dict[str, Any] = {
    "task_id": "00000000-0002-8000-8000-00000000002b",
    "job_id": "3b8a1f07-9c55-4d7e-a1b2-5f0e8c7d6a21",
    "status": "completed",
    "target_type": "job_posting",
    "target_url": "https://example.com/jobs/1",
    "result": FIELDS,
    "error": None,
    "reason": None,
    "created_at": "2026-03-14T12:00:00Z",
    "started_at": "2026-03-14T12:00:00.012Z",
    "completed_at": "2026-03-14T12:00:00.790Z",
    "cost_usd": "0",
}
PAGE: dict[str, Any] = {
    "provenance": {
        "job_title": {
            "source": "json-ld:JobPosting.title",
            "confidence": 0.95,
            "page": "https://example.com/jobs/1",
        }
    },
    "page_url": "https://example.com/jobs/1",
    "pages": ["https://example.com/jobs/1"],
    "rendered": False,
    "fetched_at": "2026-03-14T12:00:00.700Z",
    "stored": False,
}
KIND: dict[str, Any] = {
    "name": "job_posting",
    "fields": ["company_name", "job_title", "salary_range"],
    "by_default": ["company_name", "job_title", "salary_range"],
}
RESULT = {
    "task_id": TASK["task_id"],
    "target_type": "job_posting",
    "target_url": "https://example.com/jobs/1",
    "status": "completed",
    "result": FIELDS,
    "meta": PAGE,
}
JOB: dict[str, Any] = {
    "job_id": TASK["job_id"],
    "status": "running",
    "total_tasks": 2,
    "completed_tasks": 1,
    "failed_tasks": 0,
    "queued_tasks": 0,
    "running_tasks": 1,
    "cancelled_tasks": 0,
    "skipped_tasks": 0,
    "callback_url": "https://hooks.example.com/forager",
    "spent_usd": "0.001320",
    "max_usd": "0.50",
    "created_at": "2026-03-14T12:00:00Z",
    "updated_at": "2026-03-14T12:00:00.790Z",
    "finished_at": None,
}


# Requests for scrape jobs of any size: a list of pages arrives in parts.


TARGET: dict[str, Any] = {
    "target_type": "company_website",
    "target_url": "https://example.com/",
    "workspace_id": "acme",
}


class JobPart(BaseModel):
    """Some targets of a job."""

    model_config = ConfigDict(extra="forbid")

    targets: list[dict[str, Any]] = Field(
        description="1 to 10,000 pages, each with the fields of a target of `POST /api/v1/scrape/batch`.",
        min_length=1,
    )
    more: StrictBool = Field(default=False, description="True if more parts follow. The last one starts the job.")


class FirstPart(JobPart):
    """A job, and the first of its targets."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [TARGET], "more": True}]})

    callback_url: str | None = Field(default=None, description="Notified when the job ends.")
    source: str | None = Field(
        default=None, max_length=200, description="Name of the list that the pages come from. Lists of jobs show it."
    )
    max_usd: MaxUsd | None = None


class NextPart(JobPart):
    """Further targets of a job."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": [TARGET], "first": 1, "more": False}]})

    first: int = Field(
        strict=True, ge=0, le=10**9, description="Position of the first of these targets in the job, from 0."
    )
