"""The states of jobs and tasks, and the few reasons that the ledger itself writes. Drawn in docs/states.md."""

from enum import IntEnum, StrEnum

from forager.core.reasons import Reason


class TaskState(IntEnum):
    """The state of a task in the ledger. Users see `public()`: several kinds of waiting are all `queued`."""

    READY = 0
    WAITING = 1
    """Due later: a retry or a snooze."""
    HELD = 2
    """Waits until its predecessor is completed."""
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    SKIPPED = 6
    CANCELLED = 7
    SUSPECT = 8
    """Was in flight when its worker died: runs again in smaller groups, in the end alone."""

    def public(self) -> str:
        return PUBLIC_STATE[self]


PUBLIC_STATE = {
    TaskState.READY: "queued",
    TaskState.WAITING: "queued",
    TaskState.HELD: "queued",
    TaskState.SUSPECT: "queued",
    TaskState.RUNNING: "running",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.SKIPPED: "skipped",
    TaskState.CANCELLED: "cancelled",
}

ENDS = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED})
QUEUED = (TaskState.READY, TaskState.WAITING, TaskState.HELD, TaskState.SUSPECT)


class JobState(StrEnum):
    PLANNING = "planning"
    """Its tasks are still being written. Shown as `queued`; nothing of it can be leased."""
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL_JOBS

    def public(self) -> str:
        return "queued" if self is JobState.PLANNING else self.value


TERMINAL_JOBS = frozenset({JobState.COMPLETED, JobState.PARTIALLY_COMPLETED, JobState.FAILED, JobState.CANCELLED})

AFTER_FAILED = Reason.AFTER_FAILED.value
BUDGET = Reason.BUDGET.value
CANCELLED = Reason.CANCELLED.value

ALONE_CRASHES = 3
"""Crashes of a worker while it ran the step of only this task, after which the task becomes a dead letter …"""
WAITING_CRASHES = 10
"""… and while that step waited for an answer, counted apart. A process rarely dies of waiting: far more often it was
killed from outside, and a slow upstream made the task look guilty."""


def ended_state(*, completed: int, failed: int, drain: str | None) -> JobState:
    """Return the final state of a job without open tasks.

    A task that was skipped is neither a success nor a failure: what counts is whether any task was completed. So a job
    has failed if none was, and at least one failed or the budget did not pay for the first.
    """
    if drain == CANCELLED:
        return JobState.CANCELLED
    if completed:
        return JobState.PARTIALLY_COMPLETED if failed else JobState.COMPLETED
    return JobState.FAILED if failed or drain == BUDGET else JobState.COMPLETED
