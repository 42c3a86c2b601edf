"""The bodies of reports, as the API and `--json` show them. Their fields are documentation: say what each means."""

from datetime import date, datetime
from typing import Any

from pydantic import Field

from forager.core.states import TaskState
from forager.core.waiting import Waiting
from forager.kit.reports import EvidenceReport, Report, TaskReport


class QueuedTask(Report):
    """A task that does not run yet, with what is known about its wait."""

    lane: str
    state: TaskState
    due_at: datetime | None
    error: str | None
    reason: str | None
    is_offered: bool = False
    """Whether a message names it: until it is due, only a worker that reads the message can take it."""


class AttemptReport(Report):
    """One try of a task. Failed ones are kept, and every one of the steps that ask for it."""

    attempt: int = Field(description="Number of the attempt; one that burned none has the number of the next.")
    started_at: datetime
    duration_ms: int = Field(description="From the start of the step to its end, waits for its lane included.")
    status: str = Field(description="completed, failed, skipped, snoozed, given_back or lost (its worker died)")
    reason: str | None = Field(description="Why it failed or was postponed, as a code.")
    error_type: str | None = Field(description="Category of the failure: network, http, parse and so on.")
    message: str | None = Field(description="Why it failed or was postponed, as a message.")
    traceback: str | None = Field(description="Where in the code it failed.")


class DeadLetter(TaskReport):
    """A task that failed for good."""

    pipeline: str


class DeadReason(Report):
    """Dead letters that failed for the same reason."""

    pipeline: str
    reason: str | None
    error_type: str | None
    letters: int
    last_failed_at: datetime


class DeadLetterDetail(DeadLetter):
    body: Any = Field(description="The task's input as stored.")
    evidence: EvidenceReport | None


class RecordKind(Report):
    """A kind of records, and how its lists and exports look."""

    kind: str
    per_job: bool = Field(description="Whether each job has records of its own; otherwise each exists once.")
    fields: list[str] = Field(description="The fields of a record in a list, in this order.")
    nested: list[str] = Field(description="Those fields that may hold an object or a list.")
    filters: list[str] = Field(description="Fields that a list can be filtered by.")


class LaneReport(Report):
    """A site or API with its own rates and limits."""

    name: str
    owner: str | None = Field(description="The session that owns the lane now.")
    shared: bool = Field(
        default=False,
        description="Whether every worker uses the lane at once, with limits of its own; it has no owner.",
    )
    paused: bool
    wake_at: datetime | None = Field(description="No session owns the lane; one may take it from this time on.")
    state: dict[str, Any] = Field(description="Rate and breaker, as its owner last stored them.")
    waiting: Waiting | None = Field(default=None, description="Why the lane sends nothing now; null if it may send.")


class Spending(Report):
    day: date = Field(description="UTC")
    spent: int


class SessionReport(Report):
    """One living worker process."""

    id: int
    name: str
    started_at: datetime
    lease_until: datetime


class PipelineLoad(Report):
    """The open work of one pipeline."""

    queued: int = Field(description="Tasks of open jobs that wait.")
    running: int = Field(description="Tasks of open jobs in flight.")
    waiting_since: datetime | None = Field(description="When the oldest job that waits for its first attempt was made.")


class QueueLoad(Report):
    """The lanes of one queue that have work and no owner."""

    lanes: int = Field(description="How many of them there are.")
    since: datetime = Field(description="Since when the one that has waited longest could be taken.")


class Health(Report):
    """The state of the ledger, in figures that are cheap to read."""

    open_jobs: dict[str, int] = Field(description="Jobs that have not ended, by state.")
    queued: int = Field(description="Tasks of open jobs that wait.")
    running: int = Field(description="Tasks of open jobs in flight.")
    dead_letters: int = Field(description="Failed tasks that are not discarded, counted up to 1,000.")
    sessions: int
    last_change: int = Field(description="Number of the newest change.")
    pipelines: dict[str, PipelineLoad] = Field(description="Open work by pipeline; those without any are left out.")
