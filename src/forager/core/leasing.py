"""What a worker and the ledger exchange: sessions, wants, leases, and how attempts ended. Part of the port
`core.ledger`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from forager.core.errors import Evidence, Undecodable
from forager.core.outcome import Gone, Reject, Skip
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.table import Effect
from forager.core.task import Plan, Task

SHIFT = "shift@"
"""The names of sessions that are shifts begin with this, so that they can be told from plain workers that serve some
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
    """How many tasks of a lane the session can start now."""

    lane: int
    most: int
    job: int | None = None
    """Only tasks of this job; None: of any job, shared fairly."""
    tasks: Sequence[int] = ()
    """First these tasks, by number, if they are ready or offered (`Pipeline.tells`), within the limits of any lease;
    then others up to `most`. Offers of which nothing could be leased end: any lease may take these tasks. The embedded
    store offers no tasks, and ignores this."""


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
    """Milliseconds that it has waited in vain, without an attempt; None if it has not."""
    alone: bool = False
    """Whether it is a suspect that runs with nothing beside it: a crash counts against it once its step has begun."""


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
    """How much of the cost is assumed, because the answer was lost."""
    error: str | None = None
    """The error message …"""
    reason: str | None = None
    """… the reason, for programs (`core.reasons`, `Pipeline.reasons`) …"""
    error_type: str | None = None
    """… and the category of the failure (`ErrorType`)."""
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
    spares: Literal["none", "standing", "succeeded"] = "none"
    """Jobs that `halt` does not pause: standing ones; with `succeeded`, also those with a completed task."""
    patience: float | None = None
    """The task fails once waits in vain add up to so many seconds. None: this wait does not count (hours, a cap)."""
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
    """Those of these lanes in which a job has more tasks than its batch size, concurrency or budget allow."""
    suspects: bool = False
    """Whether suspects wait for `lease_suspects`."""
    lanes_to_take: bool = True
    """False if every lane with work has an owner, so that `take_lanes` would find none."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep repaired."""

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
