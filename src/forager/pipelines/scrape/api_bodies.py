"""Response bodies of the scrape routes, as the specification prescribes."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from forager.core.errors import NotFound
from forager.kit.reports import JobReport
from forager.kit.service import Service
from forager.pipelines.scrape.pipeline import NAME
from forager.pipelines.scrape.reports import ScrapeResultReport, ScrapeTaskReport
from forager.pipelines.scrape.words import shown_reason

TaskStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
JobStatus = Literal["queued", "running", "paused", "completed", "partially_completed", "failed", "cancelled"]


class TaskCreated(BaseModel):
    task_id: UUID
    job_id: UUID = Field(description="A single page is a job of one.")
    status: Literal["queued"]


class BatchCreated(BaseModel):
    job_id: UUID
    total_tasks: int
    status: Literal["queued"]


class PartReceived(BaseModel):
    job_id: UUID
    total_tasks: int = Field(description="Pages received so far. The next part begins at this position.")
    status: Literal["receiving", "queued"] = Field(
        description="`receiving` while more parts are expected; `queued` once the last one is stored."
    )


class Page(BaseModel):
    """Where a result was read from."""

    provenance: dict[str, Any] = Field(
        description="Source of each field that was found: page, location and confidence."
    )
    page_url: str = Field(description="URL after redirects.")
    pages: list[str] = Field(description="Every page that was read.")
    rendered: bool = Field(description="By a browser.")


class TaskSeen(BaseModel):
    task_id: UUID
    job_id: UUID
    status: TaskStatus
    target_type: str
    target_url: str
    result: dict[str, Any] | None = Field(description="The requested fields, if it is completed; else null.")
    error: str | None = Field(description="Why it failed, or the error of its last attempt.")
    reason: str | None = Field(description="The same as a code, if there is one.")
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None = Field(description="When it ended, however it did.")


class PageListed(TaskSeen):
    meta: Page | None = Field(description="Where the result was read from, if it is completed; else null.")


class ResultSeen(BaseModel):
    task_id: UUID
    target_type: str
    target_url: str
    status: Literal["completed"]
    result: dict[str, Any]
    meta: Page


class JobSeen(BaseModel):
    job_id: UUID
    status: JobStatus
    total_tasks: int
    completed_tasks: int
    failed_tasks: int
    queued_tasks: int
    running_tasks: int
    cancelled_tasks: int
    callback_url: str | None
    created_at: datetime
    updated_at: datetime = Field(description="When something last happened to it.")
    finished_at: datetime | None


async def job_of(service: Service, job_id: UUID) -> JobReport:
    try:
        job = await service.reports.job(job_id)
    except NotFound:
        job = None
    if job is None or job.pipeline != NAME:
        raise NotFound(f"There is no scrape job {job_id}.")
    return job


def seen_task(task: ScrapeTaskReport) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the body and the metadata of a task."""
    result = task.found
    failed = task.state != "completed"
    seen = {
        "task_id": task.id,
        "job_id": task.job,
        "status": task.state,
        "target_type": task.target_type,
        "target_url": task.target_url,
        "result": result.result if result else None,
        "error": task.error if failed else None,
        "reason": shown_reason(task.reason) if failed else None,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "completed_at": task.ended_at,
    }
    return seen, {} if result is None else seen_page(result)


def seen_listed(task: ScrapeTaskReport) -> dict[str, Any]:
    """Return a page as an entry of a list: its metadata is part of it."""
    seen, page = seen_task(task)
    return {**seen, "meta": page or None}


def seen_result(result: ScrapeResultReport) -> dict[str, Any]:
    return {
        "task_id": result.task_id,
        "target_type": result.target_type,
        "target_url": result.target_url,
        "status": "completed",
        "result": result.result,
        "meta": seen_page(result),
    }


def seen_page(result: ScrapeResultReport) -> dict[str, Any]:
    return result.model_dump(include={"provenance", "page_url", "pages", "rendered"})


async def seen_job(service: Service, job: JobReport) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "status": job.state,
        "total_tasks": job.total,
        "completed_tasks": job.completed,
        "failed_tasks": job.failed,
        "queued_tasks": job.queued,
        "running_tasks": job.running,
        "cancelled_tasks": job.cancelled,
        "callback_url": job.params.get("callback_url"),
        "created_at": job.created_at,
        "updated_at": await service.reports.last_moved(job.id) or job.finished_at or job.created_at,
        "finished_at": job.finished_at,
    }
