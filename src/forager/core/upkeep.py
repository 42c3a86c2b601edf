"""Retention: how long data is kept, and how much was removed. Ages are in seconds; None means for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, Protocol, Self
from uuid import UUID

from forager.core.record import Record
from forager.core.states import AFTER_FAILED, BUDGET, CANCELLED, ENDS, JobState, TaskState


@dataclass(frozen=True, slots=True)
class Keep:
    """Retention of each kind of data."""

    jobs: float | None = None
    """Finished jobs with their tasks, after their end. A standing job is never removed."""
    messages: float | None = None
    """Tasks of internal pipelines (webhooks) that were done or discarded, after their end."""
    rejected: float | None = None
    """Rows that failed validation, after they came."""
    attempts: float | None = None
    """The log of attempts, after their beginning."""
    changes: float | None = None
    """Changes that every sink has passed, after their commit. The newest change of a job that is still there stays,
    and so does what a sink has set aside."""
    records: float | None = None
    """Records of job scope, after the end of their job, once that job is removed. Records of world scope stay."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Counts of what was removed, or would be."""

    jobs: int = 0
    tasks: int = 0
    messages: int = 0
    rejected: int = 0
    attempts: int = 0
    changes: int = 0
    records: int = 0
    more: bool = False
    """True if there may be more to remove."""

    def __add__(self, other: Self) -> Self:
        """Add two results; `more` comes from the later one."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "more"}
        return type(self)(**sums, more=other.more)

    @property
    def total(self) -> int:
        return sum(getattr(self, each.name) for each in fields(self) if each.name != "more")


# The archive: files that receive records which have not been seen or changed for a long time.
#
# Moving a batch has three commits, each of which can be the last before a crash:
#
# 1. the ledger notes the file that is about to be written (`writing`); 2. the file is written and read back; then one
# transaction of the ledger removes the records, keeps their keys, and notes that the file counts (`moved`), but only if
# none of them has changed meanwhile and the file is still noted; 3. a manifest that names the file is written, and
# noted (`listed`).
#
# A file that was never counted is first noted as such (`dropped`: from then on it cannot count), then removed, then
# forgotten; a manifest that is missing is written again. So a record is in the ledger or in a file that counts, never
# in neither and never in both.


State = Literal["writing", "dropped", "moved", "listed"]


@dataclass(frozen=True, slots=True)
class OldRecord:
    """A record as it was read for the archive."""

    id: int
    key: str
    version: int
    seen_at: int
    """Time when it was last seen, in Unix milliseconds."""
    row: Mapping[str, Any]
    """Its values and what the ledger keeps about it, as the API shows them."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of the archive that is about to be written."""

    kind: str
    place: str
    """The folder or the address in S3."""
    path: str
    records: int
    bytes: int
    digest: str
    """SHA-256 of its content, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of the archive, as stored in the ledger."""

    id: int
    new: NewFile
    state: State
    at: datetime
    """Time when it was noted."""


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """The location of the last archived state of a record."""

    kind: str
    key: str
    version: int
    at: datetime
    place: str
    path: str


class Archives(Protocol):
    """The ledger's data about archived records."""

    def check(self, kind: str) -> None:
        """Raise `Rejected` if records of this kind cannot be archived. Reads no database."""
        ...

    async def count(self, kind: str, before: int) -> int:
        """Count the records that were neither seen nor changed since `before` (Unix milliseconds)."""
        ...

    async def read(self, kind: str, before: int, after: int, most: int) -> Sequence[OldRecord]:
        """Return the next of these records after the id `after`. The newest row of a table is never among them, so that
        its number is not given again."""
        ...

    async def begin(self, new: NewFile) -> int:
        """Note a file that is about to be written. Returns its id."""
        ...

    async def drop(self, file: int) -> bool:
        """Note that a file will never count, so that it may be removed. Returns False if it counts by now."""
        ...

    async def forget(self, file: int) -> None:
        """Forget a file that was dropped and removed."""
        ...

    async def list_(self, file: int) -> None:
        """Record that the manifest of a counted file is written."""
        ...

    async def unfinished(self, place: str, begun_before: int) -> Sequence[ArchiveFile]:
        """Return the files at this place that count without a manifest, those that were dropped, and those that do not
        count and were begun before this moment: their writers are gone."""
        ...

    async def find(self, kind: str, key: str) -> ArchivedRecord | None:
        """Return where a record is in the archive."""
        ...


# Jobs that are written back into an empty ledger from a mirror: under their own numbers, with their tasks' states.
#
# Nothing is planned again, because reference data may have changed since. Pure.


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
    """Number of records that it has found, including those that are not restored."""

    @property
    def is_finished(self) -> bool:
        return self.state.is_terminal and not any(task.is_open for task in self.tasks)

    @property
    def counts(self) -> dict[str, int]:
        """Return the job's counters, by the names of their columns."""
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
    """Numbers of records, by kind."""


def resolved(job: RestoredJob) -> RestoredJob:
    """Return the job as it continues: what was in flight is queued, and a task whose predecessor runs again waits for
    it.

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
    """Return a task in the state that follows from its predecessor: held, ready, or skipped after a failure."""
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
