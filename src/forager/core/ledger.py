"""The ledger's port: verbs at the level of intent, never `execute(sql)`. Two whole implementations, one contract suite.

Everything that a verb does is one transaction. Durations are seconds, points in time are Unix milliseconds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import Evidence, Undecodable
from forager.core.outcome import Gone, Reject, Skip
from forager.core.pipeline import JobLimits
from forager.core.record import Record
from forager.core.retention import Keep, Pruned
from forager.core.states import TaskState
from forager.core.table import Effect
from forager.core.task import Plan, Task
from forager.core.watch import MOST_AT_ONCE, Dispatched, Watch


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
    """Its key is remembered for ever: it is the one job to which `append` adds."""
    id: UUID | None = None
    """The public id to give it; None: the ledger chooses one. Secrets are sealed for one id, so they need it."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Sealed texts by name (`core.secret.about_job`). Stored with the job, in no parameter and no fingerprint, and
    deleted in the transaction that ends the job, however it ends."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: UUID
    total: int
    created: bool
    """False: the same Idempotency-Key was used before, and this is that job."""
    first: UUID | None = None
    """The first task of a job that was made just now, in one piece: nobody need look for it."""


@dataclass(frozen=True, slots=True)
class Session:
    """One living worker process. `lease` is how long its claims hold after a heartbeat."""

    id: int
    name: str
    lease: float


@dataclass(frozen=True, slots=True)
class GivenLane:
    """A lane that goes back: what its next owner must know, and when it may be woken at the earliest."""

    state: Mapping[str, Any] = field(default_factory=dict)
    not_before: int | None = None


@dataclass(frozen=True, slots=True)
class OwnedLane:
    """A lane that a session now owns; `state` is what the last owner wrote down (rates, breaker), opaque here."""

    id: int
    name: str
    state: Mapping[str, Any]
    epoch: int = 1
    """How often it was taken: 1 means that nobody had it before."""
    spent_hour: int = 0
    spent_day: int = 0
    spent_month: int = 0


class Away(Enum):
    """Why a lane cannot be had."""

    PAUSED = "it is paused"
    ELSEWHERE = "another worker has it"


@dataclass(frozen=True, slots=True)
class Demand:
    """Whose turn it is, asked where there is not enough for all."""

    own: Mapping[int, int] = field(default_factory=dict)
    """By lane: the lowest turn of what waits in it."""
    waiting: Sequence[int] = ()
    """The same of the lanes that have work and no owner, lowest first."""


@dataclass(frozen=True, slots=True)
class Want:
    """How many tasks of a lane the session can start now."""

    lane: int
    most: int


# A lease and a settlement are made for every task: freezing them would cost more than leasing and settling them does.
@dataclass(slots=True, eq=False)
class Lease:
    """One attempt: this task is yours while your session lives. `claim` is the fence that every end must carry."""

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
    """Milliseconds that it has waited in vain, without an attempt; None: none."""


@dataclass(slots=True, eq=False)
class Extras:
    """The rarer parts of an effect (see `Done`), in one slot: a settlement without them pays for none."""

    updates: Sequence[Record] = ()
    gone: Sequence[Gone] = ()
    rejected: Sequence[Reject] = ()
    effects: Sequence[Effect] = ()


@dataclass(slots=True, eq=False)
class Tried:
    """How an attempt went, for the log of attempts. Completed ones have none, unless their step keeps every attempt."""

    trace: str | None = None
    """Where it failed, in the code."""
    started_at: int = 0
    duration_ms: int = 0
    """From the start of the step to its end, waits for the lane included."""
    always: bool = False
    """Whether the step keeps every attempt; otherwise only one that failed is kept."""


@dataclass(slots=True, eq=False)
class Settlement:
    """How an attempt ended. READY and WAITING put the task back into the queue; HELD is never written this way."""

    lease: Lease
    state: TaskState
    cost: int = 0
    guessed: int = 0
    """How much of the cost is assumed, because no answer told it."""
    error: str | None = None
    """The sentence for people …"""
    reason: str | None = None
    """… the word for programs (`core.reasons`, `Pipeline.reasons`) …"""
    error_type: str | None = None
    """… and where the failure belongs (`ErrorType`)."""
    wait: float = 0.0
    burned: bool = True
    """Whether this attempt counts. A snooze, a halt and a drain burn none."""
    facts: Mapping[str, int] | None = None
    records: Sequence[Record] = ()
    tasks: Sequence[Plan] = ()
    skip: Sequence[Skip] = ()
    evidence: Evidence | None = None
    halt: str | None = None
    """Pause the whole job for this reason."""
    patience: float | None = None
    """This wait is in vain, and so many seconds of such waits are enough: then the task has failed. None: a wait that
    counts for nothing (hours, a cap, a pause)."""
    give_up_at: int | None = None
    """Instead of that: if the wait would end after this moment, the task has failed."""
    extras: Extras | None = None
    tried: Tried | None = None


@dataclass(frozen=True, slots=True)
class LeaseBatch:
    """The result of `settle_and_lease`: new leases, refused settlements, and what is left to lease."""

    leases: Sequence[Lease] = ()
    fenced: Sequence[int] = ()
    """Task ids whose settlement was refused, because their claim was lost."""
    next_due: Mapping[int, int | None] = field(default_factory=dict)
    """For each lane that gave less than was wanted: when its next waiting task is due, if any."""
    limited: Collection[int] = ()
    """Of these lanes, those in which a job may have more, but for its batch size, its concurrency or its budget."""
    suspects: bool = False
    """Tasks that were in flight at a crash wait for `lease_suspects`."""
    lanes_to_take: bool = True
    """False: no lane that has work is without an owner; `take_lanes` would find none."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep mended."""

    rescued: int = 0
    sessions_ended: int = 0
    drained: int = 0
    unfinished_jobs_removed: int = 0
    woken: int = 0
    evidence_removed: int = 0
    more: bool = False
    """It stopped at its page size: sweep again soon."""
    aged: int = 0
    """Jobs that have waited long enough to be in the first turn."""
    robots_removed: int = 0


class Ledger(Protocol):
    """The durable truth."""

    tells_all: bool
    """Whether `work_arrived` returns for everything that there is to lease or take, also for what becomes due: all of
    it is written by this process. Otherwise a worker looks by itself now and then."""

    # ── jobs ──
    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        """Raises `Busy`, and keeps nothing, if the job does not fit under its `most_queued` or `most_waiting_jobs`."""
        ...

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        """Add tasks to the standing job with this key, which is made if there is none.

        `total` counts the tasks that were queued. Those that the job had before stay as they are, in whatever state;
        with `again`, those of them that have ended are queued once more, as the plan now says, and keep their past:
        what they cost, what they found, their attempts. A job that had ended goes on; a paused one stays paused.
        Raises `Conflict` while the job is being cancelled.
        """
        ...

    async def dispatch(self, pipeline: str, watch: Watch, most: int = MOST_AT_ONCE) -> Dispatched:
        """LeaseBatch at most `most` records whose time has come into tasks of the watch's standing job, oldest first.

        Their due times are cleared in the same transaction. If several processes do this at once, each record becomes
        one task. A paused watch does nothing. Raises `Conflict` while the standing job is being cancelled.
        """
        ...

    async def pause(self, job: UUID, reason: str | None = None) -> None: ...
    async def resume(self, job: UUID) -> None: ...
    async def cancel(self, job: UUID) -> None: ...
    async def prioritise(self, job: UUID, turn: int) -> None:
        """Give a job that has not ended another `JobLimits.turn`, wherever it has work. Raises `Conflict` if it has."""
        ...

    async def retry(self, job: UUID, *, secrets: Mapping[str, str] | None = None) -> int:
        """Queue its failed tasks again, and the followers that were skipped because of them. Returns how many.

        `secrets`: sealed texts that the job needs again; stored only if something was queued.
        """
        ...

    async def retry_task(self, task: UUID) -> int: ...
    async def discard(self, task: UUID) -> None:
        """Hide one dead letter; counters stay."""
        ...

    # ── work ──
    async def begin(self, name: str) -> Session: ...
    async def beat(
        self, session: Session, lane_states: Mapping[int, Mapping[str, Any]], wants: int = 0
    ) -> datetime | None:
        """Keep the session alive, its lanes' state written, and known how many more lanes it could use.

        Returns the time by the store's clock. None: the session is lost, so stop sending.
        """
        ...

    async def end(self, session: Session) -> None:
        """Give everything back: lanes and, unburned, whatever was not settled."""
        ...

    async def take_lanes(self, session: Session, most: int) -> Sequence[OwnedLane]:
        """Lanes with work that nobody owns. Where there are more: by the lowest turn of what waits in each, and then
        those that have waited longest. While other sessions want lanes, none above the session's fair share."""
        ...

    async def surplus(self, session: Session) -> int:
        """How many lanes the session has above its fair share: 0 while no other session wants any."""
        ...

    async def demand(self, lanes: Sequence[int], most: int) -> Demand:
        """How urgent these lanes are, and up to `most` of those that could be taken."""
        ...

    async def take_lane(self, session: Session, name: str) -> OwnedLane | Away:
        """One lane by its name, whether or not it has work; made if there is none."""
        ...

    async def give_lanes(self, session: Session, lanes: Mapping[int, GivenLane]) -> None: ...
    async def settle_and_lease(
        self, session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]
    ) -> LeaseBatch:
        """Settle what ended and lease what fits, in one transaction."""
        ...

    async def lease_suspects(self, session: Session, room: Mapping[int, int] | None = None) -> Sequence[Lease]:
        """The next group of suspects, small enough to find the guilty one. Ask only when nothing is in flight.

        `room`: how many each lane can take now; without it, any number.
        """
        ...

    async def held(self, session: Session) -> Sequence[Lease]:
        """Return the leases that the session holds. If the answer of a `settle_and_lease` was lost, these may be more
        than the session knows of."""
        ...

    async def has_work(
        self, of: Collection[str] | None = None, *, but: Collection[str] = (), ready: bool = False
    ) -> bool:
        """Whether any job is neither ended nor paused: of these pipelines (None: of all), but not of those.

        `ready`: whether such a job has a task that runs or could run now. One that waits for a later moment does not
        count then.
        """
        ...

    async def work_arrived(self, timeout: float) -> None:
        """Return when there may be something new to lease or a lane to take, or after `timeout` seconds."""
        ...

    async def sweep(self) -> Swept:
        """Rescue what dead sessions held, drain cancelled jobs, age waiting ones, drop old evidence and old files
        of robots.txt: page by page."""
        ...

    async def prune(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """Remove one page of what is older than it is to be kept, in one transaction. `more`: call again.

        `sinks` are the configured ones: what one of them has not passed stays.
        """
        ...

    async def prunable(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """How much `prune` would remove by and by. Removes nothing."""
        ...

    # ── lanes ──
    async def pause_lane(self, name: str, *, paused: bool) -> None:
        """Nothing of it is leased while it is paused. A lane that nobody has used yet can be paused, too."""
        ...

    async def wake_lanes(self) -> None:
        """Every sleeping lane is worth a look: the rules by which it went to sleep have changed."""
        ...

    # ── changes ──
    async def changes(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> Sequence[Change]:
        """Up to `limit` changes with numbers above `after` (and not above `until`), in the order of their numbers.

        Optionally only those of one job or of some kinds. `bodies=False` leaves out the bodies of records of job scope,
        which are read from another table.
        """
        ...

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        """Call this soon after jobs have ended by whichever process's doing, with their numbers; with none when some
        may have been missed. Says nothing where only one process can end a job: its own engine knows first."""
        ...

    # ── the store itself ──
    @property
    def database(self) -> Database:
        """For reports, and for tables beside the hot path."""
        ...

    async def now(self) -> datetime:
        """The database's clock."""
        ...

    async def now_ms(self) -> int:
        """The same clock, in Unix milliseconds."""
        ...

    def announce(self, url: str | None) -> None:
        """Tell commands on this machine where the API of this process answers; None: it does not any more.

        Only a store that belongs to one process keeps the address; with PostgreSQL, commands are given it.
        """
        ...

    async def close(self) -> None: ...
