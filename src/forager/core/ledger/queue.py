"""The ledger as a queue: jobs, tasks, sessions, leases and lanes, and the values that these verbs exchange."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol
from uuid import UUID

from forager.core.errors import Evidence, Undecodable
from forager.core.outcome import Gone, Reject, Skip
from forager.core.pipeline import JobLimits
from forager.core.recheck import MOST_AT_ONCE, Dispatched, Recheck
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.table import Effect
from forager.core.task import Plan, Task

# ── values that a worker and the ledger exchange ──


SHIFT = "shift@"
"""Prefix of the names of shifts, which distinguishes them from plain workers that serve some
queues only."""


@dataclass(frozen=True, slots=True)
class Session:
    """One living worker process. `lease` is how long its claims are valid after a heartbeat."""

    id: int
    name: str
    lease: float
    queues: tuple[str, ...] | None = None
    """The queues whose lanes it takes; None: all."""


@dataclass(frozen=True, slots=True)
class Want:
    """The number of tasks of a lane that the session can start now."""

    lane: int
    most: int
    job: int | None = None
    """Only tasks of this job; None: of any job, shared fairly."""
    tasks: Sequence[int] = ()
    """First these tasks, by number, if they are ready or offered (`Pipeline.logged_states`), within the limits of any
    lease; then others up to `most`. Offers of which nothing could be leased end: any lease may take these tasks. The
    embedded store offers no tasks, and ignores this."""


# Created for every task: freezing them would cost more than leasing and settling does.
@dataclass(slots=True, eq=False)
class Lease:
    """One attempt: the task belongs to the session while that lives. `claim` is the fence that a settlement must
    carry."""

    task_id: int
    job_id: int
    lane: int
    claim: int
    attempt: int
    price: int
    kind: str
    key: str
    task: Task | Undecodable
    retries: int | None = None
    """The task's own number of retries, if its plan gave one."""
    waited: int | None = None
    """Milliseconds of waits that burned no attempt and count against its patience; None without such waits."""
    alone: bool = False
    """True if it is a suspect that runs alone: a crash counts against it once its step has begun."""


@dataclass(slots=True, eq=False)
class Extras:
    """The rarer parts of an outcome (see `Done`), in one slot: a settlement without them costs nothing extra."""

    updates: Sequence[Record] = ()
    gone: Sequence[Gone] = ()
    rejected: Sequence[Reject] = ()
    effects: Sequence[Effect] = ()


@dataclass(slots=True, eq=False)
class Tried:
    """Details for the log of attempts. A completed attempt has none, unless its step keeps every attempt."""

    trace: str | None = None
    """The stack trace of the failure."""
    started_at: int = 0
    duration_ms: int = 0
    """From the start of the step to its end, waits for the lane included."""
    always: bool = False
    """True if the step keeps every attempt; otherwise only one that failed is kept."""


@dataclass(slots=True, eq=False)
class Settlement:
    """The end of an attempt. READY and WAITING put the task back into the queue; HELD is never written this way."""

    lease: Lease
    state: TaskState
    cost: int = 0
    guessed: int = 0
    """The part of the cost that is assumed, because the answer was lost."""
    error: str | None = None
    """The error message …"""
    reason: str | None = None
    """… the reason, for programs (`core.states.Reason`, `Pipeline.reasons`) …"""
    error_type: str | None = None
    """… and the category of the failure (`ErrorType`)."""
    wait: float = 0.0
    burned: bool = True
    """True if this attempt counts. A snooze, a halt and a drain burn none."""
    facts: Mapping[str, int] | None = None
    records: Sequence[Record] = ()
    tasks: Sequence[Plan] = ()
    skip: Sequence[Skip] = ()
    evidence: Evidence | None = None
    halt: str | None = None
    """Pause the whole job for this reason."""
    spares: Literal["none", "standing", "succeeded"] = "none"
    """Jobs that `halt` does not pause: standing ones; with `succeeded`, also those with a completed task."""
    patience: float | None = None
    """The task fails once such waits add up to this number of seconds. None: this wait does not count (hours, a
    cap)."""
    give_up_at: int | None = None
    """Alternatively: the task fails if the wait would end after this moment."""
    extras: Extras | None = None
    tried: Tried | None = None


class LogLine(NamedTuple):
    """A pipeline's own log line about an attempt that was settled. The ids of the task and of its job are added."""

    level: Literal["info", "warning", "error"]
    event: str
    """Lower-case words with underscores."""
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseBatch:
    """The result of `settle_and_lease`: new leases, refused settlements, and what is left to lease."""

    leases: Sequence[Lease] = ()
    fenced: Sequence[int] = ()
    """Task ids whose settlement was refused, because their claim was lost."""
    next_due: Mapping[int, int | None] = field(default_factory=dict)
    """For each lane with fewer tasks than wanted: when its next waiting task is due, if any."""
    limited: Collection[int] = ()
    """The lanes among these in which a job has more tasks than its batch size, concurrency or budget allow."""
    suspects: bool = False
    """True if suspects wait for `lease_suspects`."""
    lanes_to_take: bool = True
    """False if every lane with work has an owner, so that `take_lanes` would find none."""


# The input of the ledger for creating a job, and its result.


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be created. Jobs without tasks (`dry_run`) end at once and only hold their `estimate`."""

    pipeline: str
    params: Mapping[str, Any]
    limits: JobLimits = field(default_factory=JobLimits)
    idempotency_key: str | None = None
    estimate: Mapping[str, Any] | None = None
    schedule: str | None = None
    standing: bool = False
    """Its idempotency key never expires: it is the one job to which `append` adds tasks."""
    until_end: bool = False
    """Its idempotency key names it until it has ended, for at most 30 days; the next job with this key is then
    a new one."""
    id: UUID | None = None
    """The public id to give it; None: the ledger chooses one. Secrets are sealed for one id, so they need it."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Sealed texts by name (`core.secret.about_job`), deleted in the transaction that ends the job."""
    request_id: str | None = None
    """The id of the HTTP request that submitted it, for the log."""
    requested: Mapping[str, Any] | None = None
    """Its parameters as they were requested, if the store has completed them since: they decide whether a second
    request with the same idempotency key is a repeat."""


class JobNews(NamedTuple):
    """Something that a transaction of this process did to a job, for the log."""

    job: int
    """Its number."""
    op: str
    """created, started, paused, resumed, retried, extended, cancelling or ended."""
    new: Mapping[str, Any] | None = None
    """Columns that a log line needs, for a job that was just created in one transaction."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: UUID
    total: int
    created: bool
    """False if the same Idempotency-Key was used before; this is then the earlier job."""
    first: UUID | None = None
    """The first task of a job that was just created in one transaction, so that callers need no lookup."""


@dataclass(frozen=True, slots=True)
class PartsReceived:
    """The stored part of a job that is sent in parts."""

    job: UUID
    total: int
    """Number of tasks received. The next part begins with this number."""
    is_open: bool
    """True if more parts are expected: nothing of the job can be leased yet."""
    created: bool = False
    """True if this call has created the job."""


# A lane between the ledger and the session that owns it: taken, given back, or refused.


@dataclass(frozen=True, slots=True)
class GivenLane:
    """A lane that is given back: the state for its next owner, and the earliest time at which it may be taken again."""

    state: Mapping[str, Any] = field(default_factory=dict)
    not_before: int | None = None


@dataclass(frozen=True, slots=True)
class OwnedLane:
    """A lane that a session now owns. `state` is what the last owner stored (rates, breaker), opaque to the ledger."""

    id: int
    name: str
    state: Mapping[str, Any]
    epoch: int = 1
    """Number of times it was taken: 1 means that it never had an owner before."""
    spent_hour: int = 0
    spent_day: int = 0
    spent_month: int = 0
    queue: str = ""
    shared: bool = False
    """True if other sessions use it at the same time (`Lane.scope` is `worker`): it has no owner and no stored
    state."""


class Away(Enum):
    """Why a lane cannot be taken."""

    PAUSED = "it is paused"
    ELSEWHERE = "another worker has it"


@dataclass(frozen=True, slots=True)
class Demand:
    """The turns of lanes, needed when there is not enough room for all."""

    own: Mapping[int, int] = field(default_factory=dict)
    """The lowest turn of the queued tasks, by lane."""
    waiting: Sequence[int] = ()
    """The same for the lanes that have work and no owner, lowest first."""


class LedgerQueue(Protocol):
    """Creates jobs, hands out their tasks, and stores how attempts ended."""

    async def now(self) -> datetime:
        """Return the time by the database's clock."""
        ...

    announces_all: bool
    """True if `work_arrived` returns for everything that can be leased or taken, including tasks that become due,
    because only this process writes. Otherwise a worker must also poll."""

    # ── jobs ──
    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        """Create a job. Raises `Busy`, and stores nothing, if it exceeds its `most_queued` or `most_waiting_jobs`."""
        ...

    async def open_job(self, job: NewJob) -> PartsReceived:
        """Create a job whose tasks follow in parts (`add_part`). Nothing of it can be leased before the last part.

        If there is a job with the same idempotency key, that one is returned, with what was received of it. A job of
        which no part has arrived for a minute is removed by the sweep, and so is one whose process died (SQLite). Such
        a job is bulk work: no limit of its pipeline's queue refuses it.
        """
        ...

    async def add_part(self, job: UUID, first: int, plan: Iterable[Plan], *, more: bool) -> PartsReceived:
        """Add the tasks from number `first` on to a job of `open_job`, in one transaction. `more=False` starts the job.

        Tasks that were received before are left out, so that a part whose answer was lost can be sent again. Equal
        tasks count once: after a part with some, the next one begins at the returned `total`. Raises `Conflict` if an
        earlier part is missing, if the job has been started without these tasks, or if it stood still for a minute;
        `NotFound` if it was removed.
        """
        ...

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        """Add tasks to the standing job with this key, which is created if it does not exist.

        `total` counts the tasks that were queued. Tasks that the job has already stay as they are; with `again`, those
        that have ended are requeued with the new plan, and keep their history (cost, records, attempts). A job that had
        ended is reopened; a paused one stays paused. Raises `Conflict` while the job is being cancelled.
        """
        ...

    async def dispatch(self, pipeline: str, recheck: Recheck, most: int = MOST_AT_ONCE) -> Dispatched:
        """Turn at most `most` due records into tasks of the recheck's standing job, oldest first.

        Their due times are cleared in the same transaction. If several processes do this at once, each record becomes
        one task. A paused recheck does nothing. Raises `Conflict` while the standing job is being cancelled.
        """
        ...

    async def pause(self, job: UUID, reason: str | None = None) -> None: ...
    async def resume(self, job: UUID) -> None: ...
    async def cancel(self, job: UUID) -> None: ...
    async def prioritise(self, job: UUID, turn: int) -> None:
        """Give a job that has not ended another `JobLimits.turn`, wherever it has work. Raises `Conflict` if it has."""
        ...

    async def retry(self, job: UUID, *, secrets: Mapping[str, str] | None = None) -> int:
        """Requeue a job's failed tasks, and the followers that were skipped because of them. Returns how many.

        `secrets`: sealed texts that the job needs again; stored only if something was queued.
        """
        ...

    async def retry_tasks(self, tasks: Sequence[UUID]) -> int:
        """Requeue dead letters of one job in one transaction, and the followers that were skipped because of them.
        Returns the number of tasks; those that are no dead letters any more do not count.

        Raises `NotFound` if none of them is a dead letter, and `Conflict` if the job was cancelled.
        """
        ...

    async def discard(self, task: UUID) -> None:
        """Hide one dead letter; counters stay."""
        ...

    # ── work ──
    async def begin(self, name: str, queues: Sequence[str] | None = None) -> Session:
        """Begin a session. With `queues`, it takes only lanes of these queues; with an empty list, none."""
        ...

    async def beat(
        self, session: Session, lane_states: Mapping[int, Mapping[str, Any]], wants: int = 0
    ) -> datetime | None:
        """Extend the session, store the states of its lanes, and note how many more lanes it could use.

        Returns the time by the store's clock; None if the session is lost, and nothing more may be sent.
        """
        ...

    async def end(self, session: Session) -> None:
        """End the session: give back its lanes, and its unsettled tasks without burning an attempt."""
        ...

    async def take_lanes(self, session: Session, most: int) -> Sequence[OwnedLane]:
        """Take lanes that have work and no owner. If there are more: the lowest turn first, then those that have waited
        longest. While other sessions want lanes, a session gets no more than its fair share. Only lanes of the
        session's queues are taken. A lane of scope `worker` that has work is given to every session."""
        ...

    async def surplus(self, session: Session) -> Mapping[str | None, int]:
        """Return the number of lanes above the session's fair share, by queue; empty while no other session needs
        lanes.

        While some session serves some queues only, each queue is shared among the sessions that serve it, and the
        numbers are by queue. Otherwise all lanes are shared, and the one number has the key None.
        """
        ...

    async def strayed(self, session: Session) -> Sequence[int]:
        """Return the session's lanes that are pinned to a region which it does not serve (`core/regions.py`): it took
        them while that region had no workers, and gives them back now."""
        ...

    async def queues_of_lanes(self, session: Session) -> Mapping[int, str]:
        """Return the queues of the session's lanes by number, as `surplus` counts them. They may differ from those at
        the time of `take_lanes`: a process that starts changes lanes for which its pipelines declare another queue."""
        ...

    async def demand(self, session: Session, lanes: Sequence[int], most: int) -> Demand:
        """Return the turns of these lanes, and of up to `most` lanes that the session could take."""
        ...

    async def take_lane(self, session: Session, name: str) -> OwnedLane | Away:
        """Take one lane by its name, whether or not it has work. It is created if it does not exist."""
        ...

    async def give_lanes(self, session: Session, lanes: Mapping[int, GivenLane]) -> None: ...
    async def settle_and_lease(
        self, session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]
    ) -> LeaseBatch:
        """Settle finished tasks and lease new ones in one transaction. A settlement with a lost claim has no effect."""
        ...

    async def end_offers(self, tasks: Sequence[int]) -> None:
        """End the offers of these tasks, by number: any lease may take them now."""
        ...

    async def lease_suspects(self, session: Session, room: Mapping[int, int] | None = None) -> Sequence[Lease]:
        """Lease the next group of suspects (in flight when a worker died). Call it only when nothing is in flight.

        `room`: how many tasks each lane can start now; any number without it. The lease of a group of one is marked
        `alone`: `mark_step` must be called before its step runs.
        """
        ...

    async def mark_step(self, session: Session, lease: Lease, *, waits: bool) -> bool:
        """Record the next action of a suspect's step: its own code, or (`waits`) wait for an answer.

        A crash counts against a task only after the first of these calls, which must therefore be durable before the
        step runs. Returns False if the claim was lost: the step must not run.
        """
        ...

    async def held(self, session: Session) -> Sequence[Lease]:
        """Return the leases of the session. After a lost answer these may be more than the worker has seen."""
        ...

    async def has_work(
        self, of: Collection[str] | None = None, *, but: Collection[str] = (), ready: bool = False
    ) -> bool:
        """Return whether any job is neither ended nor paused: of the pipelines `of` (None: all), except those in `but`.

        With `ready`, only jobs count with a task that runs or could run now, not with one that waits for its due time.
        """
        ...

    async def work_arrived(self, timeout: float) -> None:
        """Return when there may be something new to lease or a lane to take, or after `timeout` seconds."""
        ...

    # ── lanes ──
    async def pause_lane(self, name: str, *, paused: bool) -> None:
        """Pause or resume a lane, also one that was never used. Nothing of it is leased while it is paused."""
        ...

    async def wake_lanes(self) -> None:
        """Wake every sleeping lane, because the rules have changed by which they were put to sleep."""
        ...
