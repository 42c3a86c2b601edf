"""The port of the ledger: verbs at the level of intent, never `execute(sql)`. Two implementations, one contract suite.

Every verb is one transaction. Durations are in seconds, points in time in Unix milliseconds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from forager.core.archive import OldRecord
from forager.core.change import Change
from forager.core.database import Database
from forager.core.leasing import SHIFT as SHIFT  # part of this port
from forager.core.leasing import Extras as Extras
from forager.core.leasing import Lease as Lease
from forager.core.leasing import LeaseBatch as LeaseBatch
from forager.core.leasing import LogLine as LogLine
from forager.core.leasing import Session as Session
from forager.core.leasing import Settlement as Settlement
from forager.core.leasing import Swept as Swept
from forager.core.leasing import Tried as Tried
from forager.core.leasing import Want as Want
from forager.core.new_job import JobNews as JobNews
from forager.core.new_job import NewJob as NewJob
from forager.core.new_job import Received as Received
from forager.core.new_job import Submitted as Submitted
from forager.core.owned_lane import Away as Away
from forager.core.owned_lane import Demand as Demand
from forager.core.owned_lane import GivenLane as GivenLane
from forager.core.owned_lane import OwnedLane as OwnedLane
from forager.core.restored import LastNumbers, RestoredJob
from forager.core.retention import Keep, Pruned
from forager.core.task import Plan
from forager.core.watch import MOST_AT_ONCE, Dispatched, Watch


class Ledger(Protocol):
    """The durable store of jobs, tasks, lanes, records and changes."""

    tells_all: bool
    """Whether `work_arrived` returns for everything that can be leased or taken, including tasks that become due,
    because only this process writes. Otherwise a worker must also poll."""

    # ── jobs ──
    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        """Create a job. Raises `Busy`, and stores nothing, if it exceeds its `most_queued` or `most_waiting_jobs`."""
        ...

    async def open_job(self, job: NewJob) -> Received:
        """Create a job whose tasks follow in parts (`add_part`). Nothing of it can be leased before the last part.

        If there is a job with the same idempotency key, that one is returned, with what was received of it. A job of
        which no part has arrived for a minute is removed by the sweep, and so is one whose process died (SQLite). Such
        a job is bulk work: no limit of its pipeline's queue refuses it.
        """
        ...

    async def add_part(self, job: UUID, first: int, plan: Iterable[Plan], *, more: bool) -> Received:
        """Add the tasks from number `first` on to a job of `open_job`, in one transaction. `more=False` starts the job.

        What was received before is left out, so that a part whose answer was lost can be sent again. Equal tasks count
        once: after a part with some, the next one begins at the returned `total`. Raises `Conflict` if an earlier part
        is missing, if the job has been started without these tasks, or if it stood still for a minute; `NotFound` if it
        was removed.
        """
        ...

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        """Add tasks to the standing job with this key, which is created if there is none.

        `total` counts the tasks that were queued. Tasks that the job has already stay as they are; with `again`, those
        that have ended are requeued with the new plan, and keep their history (cost, records, attempts). A job that had
        ended is reopened; a paused one stays paused. Raises `Conflict` while the job is being cancelled.
        """
        ...

    async def dispatch(self, pipeline: str, watch: Watch, most: int = MOST_AT_ONCE) -> Dispatched:
        """Turn at most `most` due records into tasks of the watch's standing job, oldest first.

        Their due times are cleared in the same transaction. If several processes do this at once, each record becomes
        one task. A paused watch does nothing. Raises `Conflict` while the standing job is being cancelled.
        """
        ...

    async def restore(self, job: RestoredJob, last: LastNumbers) -> bool:
        """Write a job back as a mirror shows it, with its own numbers, its tasks in their states and its records; plan
        nothing. What was in flight is queued. Returns False, and changes nothing, if the ledger has the job.

        Numbers of changes, claims, jobs and tasks go on after `last`. Raises `Conflict` if the job's number is another
        job's, and `Rejected` for a task that no pipeline can read.
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
        session's queues are taken. A lane of scope `worker` that has work is given to every session that asks."""
        ...

    async def surplus(self, session: Session) -> Mapping[str | None, int]:
        """Return how many lanes the session has above its fair share: nothing while no other session wants any.

        While some session serves some queues only, each queue is shared among the sessions that serve it, and the
        numbers are by queue. Otherwise all lanes are shared, and the one number has the key None.
        """
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
        """Settle what ended and lease what fits, in one transaction. A settlement with a lost claim has no effect."""
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
        """Record what the step of a suspect that runs alone does next: its own code, or (`waits`) wait for an answer.

        A crash counts against a task only after the first of these calls, which must therefore be durable before the
        step runs. Returns False if the claim was lost: the step must not run.
        """
        ...

    async def held(self, session: Session) -> Sequence[Lease]:
        """Return the leases of the session. After a lost answer these may be more than the session knows of."""
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

    async def sweep(self) -> Swept:
        """Rescue what dead sessions held, drain cancelled jobs, age waiting ones, drop old evidence, page by page."""
        ...

    async def prune(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """Remove one page of old data, in one transaction. Call it again while `more` is set.

        `sinks` are the configured ones: changes that one of them has not passed are kept.
        """
        ...

    async def undelivered_since(self, sinks: Collection[str]) -> int:
        """Return the time of the oldest change that a sink has not passed, in Unix milliseconds; now if there is none.

        `sinks` are the configured ones, as for `prune`.
        """
        ...

    async def archive(self, file: int, kind: str, records: Sequence[OldRecord]) -> bool:
        """Remove records that are in a file of the archive, keep their keys, and let the file count, in one
        transaction. Returns False, and does nothing, if one of them is not as it was read or the file was forgotten."""
        ...

    async def prunable(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """Count what repeated calls of `prune` would remove. Removes nothing."""
        ...

    # ── lanes ──
    async def pause_lane(self, name: str, *, paused: bool) -> None:
        """Pause or resume a lane, also one that was never used. Nothing of it is leased while it is paused."""
        ...

    async def wake_lanes(self) -> None:
        """Wake every sleeping lane, because the rules have changed by which they were put to sleep."""
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
        """Return up to `limit` changes with numbers above `after` (and not above `until`), in ascending order.

        Optionally only those of one job or of some kinds. `bodies=False` leaves out the bodies of records of job scope,
        which are read from another table.
        """
        ...

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        """Register a callback for jobs that any process has ended. It gets their numbers; none if some may have been
        missed. It is never called if only one process can end jobs, because its own engine reports them."""
        ...

    def when_jobs_change(self, tell: Callable[[Sequence[JobNews]], None]) -> None:
        """Register a callback for what this process has done to jobs. It is called on the event loop, after the commit;
        a job's news come in their order. What other processes do is reported in those."""
        ...

    # ── the store itself ──
    @property
    def database(self) -> Database:
        """The query port, for reports and for tables that are not on the hot path."""
        ...

    async def now(self) -> datetime:
        """The database's clock."""
        ...

    async def now_ms(self) -> int:
        """The same clock, in Unix milliseconds."""
        ...

    def announce(self, url: str | None) -> None:
        """Publish the address of this process's API for commands on this machine; None removes it.

        Only a store that belongs to one process keeps the address; with PostgreSQL, commands need it in their settings.
        """
        ...

    async def close(self) -> None: ...
