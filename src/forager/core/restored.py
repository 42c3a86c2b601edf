"""Jobs that are written back into an empty ledger from a mirror: under their own numbers, with their tasks' states.

Nothing is planned anew, because reference data may have changed since. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from forager.core.record import Record
from forager.core.states import AFTER_FAILED, BUDGET, CANCELLED, ENDS, JobState, TaskState

_FINAL_SKIPS = frozenset({BUDGET, CANCELLED})
"""Reasons of skips that do not depend on how another task ends."""


@dataclass(frozen=True, slots=True)
class RestoredTask:
    """A task as the mirror shows it. Moments are Unix milliseconds."""

    number: int
    kind: str
    key: str
    state: TaskState
    body: bytes
    """Its input, as the ledger stores it."""
    rank: int = 0
    after: int | None = None
    price: int = 0
    attempt: int = 0
    claim: int | None = None
    claimed_at: int | None = None
    ended_at: int | None = None
    cost: int = 0
    guessed: int = 0
    error: str | None = None
    reason: str | None = None
    error_type: str | None = None
    facts: Mapping[str, Any] | None = None
    hidden: bool = False

    @property
    def is_open(self) -> bool:
        return self.state not in ENDS


@dataclass(frozen=True, slots=True)
class RestoredRecord:
    """A record of job scope, with its row's number and what the ledger keeps about it."""

    number: int
    record: Record
    first_seen_at: int
    last_seen_at: int
    version: int = 1
    times_seen: int = 1
    aliases: tuple[str, ...] = ()
    """Weaker keys of the same thing."""


@dataclass(frozen=True, slots=True)
class RestoredJob:
    """A job, all of its tasks and, if it is unfinished, its records."""

    number: int
    id: UUID
    pipeline: str
    params: Mapping[str, Any]
    state: JobState
    created_at: int
    estimate: Mapping[str, Any] | None = None
    reason: str | None = None
    drain: str | None = None
    schedule: str | None = None
    turn: int = 0
    batch_size: int | None = None
    concurrency: int | None = None
    max_cost: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    tasks: Sequence[RestoredTask] = ()
    records: Sequence[RestoredRecord] = ()
    found: int = 0
    """How many records it has found, including those that are not restored."""

    @property
    def is_finished(self) -> bool:
        return self.state.is_terminal and not any(task.is_open for task in self.tasks)

    @property
    def counts(self) -> dict[str, int]:
        """The job's counters, by the names of their columns."""
        states = [task.state for task in self.tasks]
        return {
            "total": len(states),
            "queued": sum(state not in ENDS for state in states),
            "completed": states.count(TaskState.COMPLETED),
            "failed": states.count(TaskState.FAILED),
            "skipped": states.count(TaskState.SKIPPED),
            "cancelled": states.count(TaskState.CANCELLED),
            "spent": sum(task.cost for task in self.tasks),
            "guessed": sum(task.guessed for task in self.tasks),
            "records": self.found,
        }


@dataclass(frozen=True, slots=True)
class LastNumbers:
    """The highest numbers that a mirror shows. A restored ledger goes on from there, so that its changes count as later
    and no number is used twice."""

    change: int = 0
    claim: int = 0
    job: int = 0
    task: int = 0
    records: Mapping[str, int] = field(default_factory=dict)
    """By kind of record."""


def resolved(job: RestoredJob) -> RestoredJob:
    """Return the job as it goes on: what was in flight is queued, and a task whose predecessor runs again waits for it.

    The mirror can show two ends of one transaction apart: a follower that was skipped because of its predecessor, and
    the predecessor still queued. Such a follower is queued again, for the predecessor's end decides about it.
    """
    tasks = _resolved(job.tasks)
    is_open = any(task.is_open for task in tasks)
    state, drain, finished_at = job.state, job.drain, job.finished_at
    if is_open and state.is_terminal:
        drain = CANCELLED if state is JobState.CANCELLED else drain
        state = JobState.RUNNING
    if is_open or not state.is_terminal:
        finished_at = None
    return replace(job, tasks=tasks, state=state, drain=drain, finished_at=finished_at)


def _resolved(tasks: Sequence[RestoredTask]) -> list[RestoredTask]:
    by_number = {task.number: task for task in tasks}
    done: dict[int, RestoredTask] = {}

    def resolve(task: RestoredTask) -> RestoredTask:
        chain = [task]
        while chain[-1].after in by_number and chain[-1].after not in done and chain[-1].number not in done:
            chain.append(by_number[chain[-1].after or 0])
        for each in reversed(chain):
            if each.number not in done:
                done[each.number] = _follow(each, done.get(each.after or 0))
        return done[task.number]

    return [resolve(task) for task in tasks]


def _follow(task: RestoredTask, before: RestoredTask | None) -> RestoredTask:
    """Return a task as its predecessor, if it has one, lets it be."""
    waits = before is not None and before.is_open
    skipped_with_it = task.state is TaskState.SKIPPED and task.reason not in _FINAL_SKIPS
    if not task.is_open and not (waits and skipped_with_it):
        return task
    if before is not None and not before.is_open and before.state is not TaskState.COMPLETED:
        return replace(task, state=TaskState.SKIPPED, reason=AFTER_FAILED, error=AFTER_FAILED, ended_at=before.ended_at)
    return replace(
        task,
        state=TaskState.HELD if waits else TaskState.READY,
        attempt=0,
        claim=None,
        claimed_at=None,
        ended_at=None,
        error=None,
        reason=None,
        error_type=None,
        facts=None,
    )
