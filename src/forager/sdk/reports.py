"""The bodies of the generic reports: jobs, tasks and changes of any pipeline, as the API and `--json` show them.

The description of each field is part of the API's documentation.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.waiting import Waiting


class Report(BaseModel):
    model_config = ConfigDict(frozen=True)


class JobFailure(Report):
    """The tasks of a job that failed for the same reason."""

    reason: str | None = Field(description="Why they failed, as a code.")
    tasks: int
    error: str | None = Field(description="The message of one of them.")


class JobReport(Report):
    """One requested run of a pipeline. Counters are always exact: total = queued + running + completed + failed +
    skipped + cancelled."""

    id: UUID
    pipeline: str
    state: str = Field(description="queued, running, paused, completed, partially_completed, failed or cancelled")
    reason: str | None = Field(description="Why it is paused, or why it ended early (budget).")
    params: dict[str, Any] = Field(description="The job's parameters.")
    estimate: dict[str, Any] | None = Field(description="The estimate at its creation, if it was priced.")
    schedule: str | None = Field(description="The schedule that created it.")
    created_at: datetime
    started_at: datetime | None = Field(description="Time when its first task was leased.")
    finished_at: datetime | None
    batch_size: int | None = Field(description="Maximum tasks that a worker leases at once.")
    concurrency: int | None = Field(description="Maximum tasks in flight.")
    max_cost: int | None = Field(description="Maximum units that it may spend.")
    total: int = Field(description="Tasks.")
    queued: int
    running: int
    completed: int
    failed: int
    skipped: int
    cancelled: int
    retries: int = Field(description="Attempts that failed and were tried again.")
    spent: int = Field(description="Units spent, in the upstream's currency (Serper: credits).")
    guessed: int = Field(description="Part of `spent` that is assumed, because the answer was lost.")
    reserved: int = Field(description="Units reserved for in-flight tasks.")
    records: int = Field(description="Job-scoped records found (places: sightings).")
    discoveries: int = Field(description="Records that are new in the store.")
    rejected: int = Field(description="Rows that failed validation: `/jobs/{job_id}/rejected`.")
    waiting: Waiting | None = Field(default=None, description="Why none of its tasks runs now; null if some do or may.")
    lane_rate: float | None = Field(
        default=None,
        description="Requests per second that the lanes of its queued tasks allow together, from a sample of them; null"
        " if they have no limit. Shown for an open job, not in lists.",
    )
    failures: list[JobFailure] | None = Field(
        default=None,
        description="Its failed tasks by reason, the most frequent first. Shown for a job that has ended and has at"
        " most 100,000 tasks, not in lists.",
    )


class TaskReport(Report):
    """One unit of work of a job."""

    id: UUID
    job: UUID
    kind: str
    key: str = Field(description="Identity inside the job, together with the kind.")
    url: str | None = Field(default=None, description="The URL in its input, if there is one.")
    lane: str
    state: str = Field(description="queued, running, completed, failed, skipped or cancelled")
    attempts: int = Field(description="Attempts that count: a snooze, a crash or a drain burns none.")
    claim: str | None = Field(description="The claim that holds it or ended it, as claim-<unix>-<9 hex>.")
    claimed_at: datetime | None
    due_at: datetime | None = Field(description="Time when a waiting task may run.")
    after: UUID | None = Field(description="The task that must be completed first.")
    cost: int = Field(description="Units spent over all attempts.")
    guessed: int = Field(description="Part of `cost` that is assumed.")
    error: str | None = Field(description="Why it failed or was skipped, or the error of its last attempt.")
    reason: str | None = Field(description="The same as a code, such as timed_out, robots or after_failed.")
    error_type: str | None = Field(
        description="Category of the failure: network, http, blocked, parse, validation, storage or internal."
    )
    facts: dict[str, Any] = Field(description="Facts about the last call: status, duration, number of results.")
    ended_at: datetime | None


class RejectedReport(Report):
    """A row that failed validation. Its payload is untrusted: a remote server sent it."""

    id: int
    task: UUID = Field(description="The task that returned it.")
    kind: str = Field(description="The kind of record that it should have been.")
    key: str | None = Field(description="Its natural key, if that could be read.")
    reason: str = Field(description="Why it was rejected.")
    payload: Any = Field(description="The row as received; only the beginning, as text, of a very long one.")
    at: datetime


class EvidenceReport(Report):
    """The response that a failed task received. It is untrusted: a remote server sent it."""

    content_type: str
    size: int = Field(description="Bytes kept; only the beginning of a very long response.")
    text: str = Field(description="As UTF-8; invalid bytes are replaced.")
    has_screenshot: bool = Field(description="Fetch it with GET /api/v1/dead/{task_id}/screenshot.")
    kept_until: datetime


class TaskDetail(TaskReport):
    body: Any = Field(description="The task's input as stored.")
    evidence: EvidenceReport | None


class ChangeReport(Report):
    """One row of the change log."""

    id: int = Field(description="Change number: dense and in commit order.")
    kind: str
    key: str
    op: str = Field(description="new, changed or gone; for a job: created, paused, resumed, retried, extended or ended")
    version: int
    job: UUID | None = Field(description="The job that caused it.")
    at: datetime
    body: dict[str, Any] | None = Field(
        description="The record after this change; null if the record never changes, so that its row is the body."
    )
