"""Hooks for each try of a task, and for the end of a task or a job, however it ends.

A step's `on_end` and a pipeline's `on_job_end` are pure functions. The ledger calls them inside the transaction that
ends the task or the job: after the last retry, when a wait was given up, when a worker died with the task, when the job
was cancelled. So their results take effect exactly once per end, even after kill -9.

A task that is skipped in the transaction that plans it (`joined`, or behind one that has failed) was never queued: no
hook runs for it, nor for a job of which nothing else is left. A job without tasks, such as a dry run, has none either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from forager.core.record import Record
from forager.core.states import JobState, TaskState
from forager.core.table import Effect


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How a task ended."""

    state: TaskState
    """COMPLETED, FAILED, SKIPPED or CANCELLED."""
    reason: str | None
    """The reason, unless it is completed: `timed_out`, `budget` …"""
    error: str | None
    attempts: int
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskTry:
    """The end of one try of a task."""

    state: TaskState
    """The state of the task after it: COMPLETED, WAITING for the next try, READY in a job that was paused, FAILED …"""
    error: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The result of a hook."""

    effects: Sequence[Effect] = ()
    """Changes of plain tables."""
    updates: Sequence[Record] = ()
    """Updates of stored records, as `Done.updates`: the next due time of a page that could not be read, say."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended, and what it did."""

    job: UUID
    """Its public id."""
    state: JobState
    completed: int
    failed: int
    skipped: int
    cancelled: int
    records: int
    discoveries: int
    rejected: int
    spent: int
    at: datetime


OnEnd = Callable[[Any, TaskEnd], Aftermath | None]
"""`on_end(task, end)`. It must not raise; if it does, the task ends without its result, and the error is logged."""
OnTry = Callable[[Any, TaskTry], Sequence[Effect]]
"""`on_try(task, end)`: effects of the transaction that settles a try, whether the task ends or is tried again. It is
not called for a task that was put back before it was tried. The same holds if it raises."""
OnJobEnd = Callable[[Any, JobEnd], Sequence[Effect]]
"""`on_job_end(params, end)`. The same holds."""
