"""The bodies of the generic reports: jobs, tasks and changes of any pipeline, as the API and `--json` show them.

Their fields are documentation: the description of each one says what it means.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.waiting import Waiting


class Report(BaseModel):
    model_config = ConfigDict(frozen=True)


class JobReport(Report):
    """One requested run of a pipeline. Counters are exact at every moment: total = queued + running + the four ends."""

    id: UUID
    pipeline: str
    state: str = Field(description="queued, running, paused, completed, partially_completed, failed or cancelled")
    reason: str | None = Field(description="Why it is paused, or why it ended early (budget).")
    params: dict[str, Any] = Field(description="As it was created.")
    estimate: dict[str, Any] | None = Field(description="What was expected when it was created, if it was priced.")
    schedule: str | None = Field(description="The schedule that created it.")
    created_at: datetime
    started_at: datetime | None = Field(description="When its first task was leased.")
    finished_at: datetime | None
    batch_size: int | None = Field(description="Maximum tasks that a worker takes at once.")
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
    guessed: int = Field(description="How much of `spent` is assumed, because no answer told it.")
    reserved: int = Field(description="Units that may be spent by what is in flight.")
    records: int = Field(description="Records of this job's own (places: sightings).")
    discoveries: int = Field(description="Records that are new in the store.")
    rejected: int = Field(description="Rows that failed validation: `/jobs/{job_id}/rejected`.")
    waiting: Waiting | None = Field(default=None, description="Why none of its tasks runs now; null: some do, or may.")


class TaskReport(Report):
    """One unit of work of a job."""

    id: UUID
    job: UUID
    kind: str
    key: str = Field(description="Identity inside the job, together with the kind.")
    url: str | None = Field(default=None, description="The page that its input names, if it names one.")
    lane: str
    state: str = Field(description="queued, running, completed, failed, skipped or cancelled")
    attempts: int = Field(description="Attempts that count: a snooze, a crash or a drain burns none.")
    claim: str | None = Field(description="The claim that holds it or ended it, as claim-<unix>-<9 hex>.")
    claimed_at: datetime | None
    due_at: datetime | None = Field(description="A queued task that waits: when it may run.")
    after: UUID | None = Field(description="The task that must end well first.")
    cost: int = Field(description="Units spent over all attempts.")
    guessed: int = Field(description="How much of `cost` is assumed.")
    error: str | None = Field(description="Why it failed or was skipped, or what its last attempt met.")
    reason: str | None = Field(description="The same in one word, such as timed_out, robots or after_failed.")
    error_type: str | None = Field(
        description="Where the failure belongs: network, http, blocked, parse, validation, storage or internal."
    )
    facts: dict[str, Any] = Field(description="What the last call told: status, duration, number of results.")
    ended_at: datetime | None


class RejectedReport(Report):
    """A row that failed validation. Not to be trusted: its payload is what a stranger's server sent."""

    id: int
    task: UUID = Field(description="The task that brought it.")
    kind: str = Field(description="The kind of record that it should have been.")
    key: str | None = Field(description="Its natural key, if that could be read.")
    reason: str = Field(description="What is wrong with it.")
    payload: Any = Field(description="The row as it came; of a very long one, the beginning as text.")
    at: datetime


class EvidenceReport(Report):
    """What came back when a task failed. Not to be trusted: it is what a stranger's server sent."""

    content_type: str
    size: int = Field(description="Bytes kept; of a very long answer, the beginning.")
    text: str = Field(description="As UTF-8; invalid bytes are replaced.")
    has_screenshot: bool = Field(description="GET /api/v1/dead/{task_id}/screenshot gives it.")
    kept_until: datetime


class TaskDetail(TaskReport):
    body: Any = Field(description="The task's input as stored.")
    evidence: EvidenceReport | None


class ChangeReport(Report):
    """One row of the change log."""

    id: int = Field(description="Dense and in commit order.")
    kind: str
    key: str
    op: str = Field(description="new, changed, gone; of a job: created, paused, resumed, retried, extended, ended")
    version: int
    job: UUID | None = Field(description="The job that brought it.")
    at: datetime
    body: dict[str, Any] | None = Field(description="The record as it was then; null where the row itself is final.")
