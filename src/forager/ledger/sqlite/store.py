"""`Ledger` on SQLite: every verb is a command to the one writer thread. Thanks to WAL, reports read in parallel."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from forager.core.clock import Clock, Faults, NoFaults, Timer, arrives
from forager.core.errors import Conflict
from forager.core.ledger import (
    Away,
    Demand,
    GivenLane,
    JobNews,
    Lease,
    LeaseBatch,
    NewJob,
    OwnedLane,
    PartsReceived,
    Session,
    Settlement,
    Submitted,
    Swept,
    Want,
)
from forager.core.task import Plan
from forager.core.upkeep import LastNumbers, OldRecord, RestoredJob
from forager.ledger.catalog import Catalog
from forager.ledger.rules.jobs import BEING_WRITTEN, SMALL, Planned, PlanPart, Whole, encode_all
from forager.ledger.rules.recheck import RecheckPage, Taken
from forager.ledger.rules.scheduling import written
from forager.ledger.rules.upkeep import PageRemoved, PruneLimits, RemovePage, Retention
from forager.ledger.rules.verbs import SharedVerbs
from forager.ledger.sqlite import control, lanes
from forager.ledger.sqlite.append import append, dispatch
from forager.ledger.sqlite.connection import SqliteDatabase, Writer, connect, translated
from forager.ledger.sqlite.control import rescue_sessions
from forager.ledger.sqlite.lease import has_suspects, held, lease, lease_suspects, mark_step
from forager.ledger.sqlite.lock import StoreLock
from forager.ledger.sqlite.settle import settle
from forager.ledger.sqlite.state import Memory, next_number
from forager.ledger.sqlite.submit import add_part, open_job, remove_unfinished, submit_in_chunks, submit_together
from forager.ledger.sqlite.upkeep import WALKS, Walk, archive, restore
from forager.ledger.tables.domains import OF_USE_MS, PRUNED_AT_ONCE

# Rings when the next lane without an owner wakes up, so that waiting for work needs no polling.
#
# It may ring for a lane that was taken meanwhile, but never misses one that has woken up.


class Alarm:
    """Used only on the event loop. After it has rung it must be set again, from the table: other lanes may be next."""

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self.at: int | None = None
        """The moment it is set for, in Unix milliseconds; None: no lane sleeps."""
        self.has_rung = True

    def set_for(self, at: int | None, now: int) -> None:
        self.cancel()
        self.at, self.has_rung = at, False
        if at is not None:
            self._timer = self._clock.call_later(max(0, at - now) / 1000, self._rings)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self.has_rung, self._timer = True, None
        self._ring()


T = TypeVar("T")

SWEEP_PAGE = 5_000
DRAIN_PER_TURN = 500


class SqliteLedger(SharedVerbs):
    """Use `await SqliteLedger.open(...)`. The schema must be there already (`forager.ledger.schema.migrate`)."""

    announces_all = True

    def __init__(
        self,
        path: Path,
        catalog: Catalog,
        clock: Clock,
        lease_seconds: float,
        faults: Faults,
        writer: type[Writer] = Writer,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._faults = faults
        self._arrived = asyncio.Event()
        self._alarm = Alarm(clock, self._arrived.set)
        self._listeners = 0
        self._brings_work = True
        self._loop = asyncio.get_running_loop()
        self.lock = StoreLock(path.parent / "lock")
        self.lock.take()
        try:
            db = connect(path)
            self._memory = Memory.read(db, catalog, self._now_ms)
        except BaseException as error:
            self.lock.release()
            raise translated(error) from error
        self._writer = writer(db, faults, on_rollback=self._read_memory_again)
        self._sqlite = SqliteDatabase(path, self._writer)
        self.database = self._sqlite
        self._retention = Retention(self.database, catalog, {name: self._walk(walk) for name, walk in WALKS.items()})

    @classmethod
    async def open(
        cls,
        path: Path,
        catalog: Catalog,
        *,
        clock: Clock,
        lease_seconds: float = 30.0,
        faults: Faults | None = None,
        writer: type[Writer] = Writer,
    ) -> "SqliteLedger":
        """`writer`: what commits; a simulation has one without a thread."""
        ledger = cls(path, catalog, clock, lease_seconds, faults or NoFaults(), writer)
        try:
            await ledger._take_over()
        except BaseException:  # the disk may be full: release the lock, so that this process can try again
            await ledger.close()
            raise
        return ledger

    async def close(self) -> None:
        self._alarm.cancel()
        self._sqlite.close()
        await self._writer.close()
        self.lock.release()

    def announce(self, url: str | None) -> None:
        """Write the address to the lock file, where commands on this machine look first."""
        self.lock.announce(url)

    # ── jobs ──

    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        """Submit a job: in one transaction up to 20,000 tasks; else in chunks, and it starts after the last."""
        planned = await Planned.read(plan, self._catalog)
        while True:
            if planned.whole:
                submitted = await self._submit_announced(Whole(job, planned.first))
            else:
                submitted = await submit_in_chunks(self._run, lambda: self._memory, job, planned, self._faults)
            if submitted is not None:
                return submitted
            await self._clock.sleep(BEING_WRITTEN)  # the same job is being written now: its size will be known soon

    async def open_job(self, job: NewJob) -> PartsReceived:
        return await self._run(lambda db: open_job(db, self._memory, job))

    async def add_part(self, job: UUID, first: int, plan: Iterable[Plan], *, more: bool) -> PartsReceived:
        part = PlanPart(job, first, await encode_all(plan, self._catalog), more)
        return await self._run(lambda db: add_part(db, self._memory, part, self._faults))

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        plans = await encode_all(plan, self._catalog)
        return await self._run(lambda db: append(db, self._memory, job, plans, again=again))

    async def dispatch_page(self, page: RecheckPage) -> Taken:
        return await self._run(lambda db: dispatch(db, self._memory, page, self._faults))

    async def write_restored(self, job: RestoredJob, lanes_: Mapping[int, str], last: LastNumbers) -> bool:
        return await self._run(lambda db: restore(db, self._memory, job, lanes_, last))

    async def pause(self, job: UUID, reason: str | None = None) -> None:
        await self._run(lambda db: control.pause(db, self._memory, job, reason))

    async def resume(self, job: UUID) -> None:
        await self._run(lambda db: control.resume(db, self._memory, job))

    async def cancel(self, job: UUID) -> None:
        await self._run(lambda db: control.cancel(db, self._memory, job))

    async def prioritise(self, job: UUID, turn: int) -> None:
        await self._run(lambda db: control.prioritise(db, self._memory, job, turn))

    async def retry(self, job: UUID, *, secrets: Mapping[str, str] | None = None) -> int:
        return await self._run(lambda db: control.retry(db, self._memory, job, secrets or {}))

    async def retry_tasks(self, tasks: Sequence[UUID]) -> int:
        return await self._run(lambda db: control.retry_tasks(db, self._memory, tasks))

    async def discard(self, task: UUID) -> None:
        await self._run(lambda db: control.discard(db, task))

    # ── work ──

    async def begin(self, name: str, queues: Sequence[str] | None = None) -> Session:
        def command(db: sqlite3.Connection) -> Session:
            now = self._now_ms()
            # Not a rowid: SQLite reuses the last one after a delete, and a lost session's number must never be reused.
            number = next_number(db, "claim")
            db.execute(
                "INSERT INTO sessions (id, name, started_at, lease_until, queues) VALUES (?, ?, ?, ?, ?)",
                (number, name, now, now + round(self._lease_seconds * 1000), written(queues)),
            )
            return Session(number, name, self._lease_seconds, None if queues is None else tuple(queues))

        return await self._run(command)

    async def beat(
        self, session: Session, lane_states: Mapping[int, Mapping[str, Any]], wants: int = 0
    ) -> datetime | None:
        now = self._now_ms()
        until = now + round(session.lease * 1000)
        alive = await self._run(lambda db: lanes.beat(db, self._memory, session.id, until, lane_states, wants))
        return datetime.fromtimestamp(now / 1000, UTC) if alive else None

    async def end(self, session: Session) -> None:
        await self._run(lambda db: rescue_sessions(db, self._memory, [session.id], crashed=False))

    async def take_lanes(self, session: Session, most: int) -> Sequence[OwnedLane]:
        return await self._run(lambda db: lanes.take(db, self._memory, session, most))

    async def take_lane(self, session: Session, name: str) -> OwnedLane | Away:
        return await self._run(lambda db: lanes.take_one(db, self._memory, session.id, name))

    async def surplus(self, session: Session) -> Mapping[str | None, int]:
        return await self._run(lambda db: lanes.surplus(db, self._memory, session.id))

    async def strayed(self, session: Session) -> Sequence[int]:
        return ()  # regions need workers on several machines

    async def queues_of_lanes(self, session: Session) -> Mapping[int, str]:
        return await self._run(lambda db: lanes.queues_of_lanes(db, session.id))

    async def demand(self, session: Session, lanes_: Sequence[int], most: int) -> Demand:
        return await self._run(lambda db: lanes.demand(db, self._memory, session, lanes_, most))

    async def give_lanes(self, session: Session, lanes_: Mapping[int, GivenLane]) -> None:
        await self._run(lambda db: lanes.give(db, self._memory, session.id, lanes_))

    async def settle_and_lease(
        self, session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]
    ) -> LeaseBatch:
        def command(db: sqlite3.Connection) -> LeaseBatch:
            memory = self._memory
            fenced = settle(db, memory, settlements)
            self._faults.at("settled")
            batch = lease(db, memory, session, wants) if wants and self._is_alive(db, session) else LeaseBatch()
            self._faults.at("leased")
            if memory.flows.draining:
                control.drain(db, memory, DRAIN_PER_TURN)
            look = lanes.some_awake(db, memory, session) or lanes.others_want(db, session.id)
            return replace(batch, fenced=fenced, suspects=has_suspects(db, session), lanes_to_take=look)

        return await self._run(command)

    async def end_offers(self, tasks: Sequence[int]) -> None:
        """Does nothing: the one process of this store leases every task, so none is offered."""

    async def lease_suspects(self, session: Session, room: Mapping[int, int] | None = None) -> Sequence[Lease]:
        return await self._run(lambda db: lease_suspects(db, self._memory, session, room))

    async def mark_step(self, session: Session, lease: Lease, *, waits: bool) -> bool:
        return await self._run(lambda db: mark_step(db, session, lease, waits=waits))

    async def held(self, session: Session) -> Sequence[Lease]:
        return await self._run(lambda db: held(db, self._memory, session))

    async def work_arrived(self, timeout: float) -> None:
        """Also returns when a lane without an owner wakes up: all such moments are known in this process."""
        if self._alarm.has_rung:
            await self._run(lambda db: self._memory.read_next_wake(db))
            self._alarm.set_for(self._memory.next_wake, self._now_ms())
        self._listeners += 1
        try:
            if await arrives(self._arrived, self._clock, timeout):
                self._arrived.clear()
        finally:
            self._listeners -= 1

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        """Does nothing: only this process can end a job, and its engine reports that itself."""

    def when_jobs_change(self, tell: Callable[[Sequence[JobNews]], None]) -> None:
        self._writer.tell = tell

    async def sweep(self) -> Swept:
        """Sweep. The lock proves that no other process uses the store, so only late sessions of our own can be
        found."""

        def command(db: sqlite3.Connection) -> Swept:
            now = self._now_ms()
            late = [r[0] for r in db.execute("SELECT id FROM sessions WHERE lease_until < ?", (now,))]
            rescued = rescue_sessions(db, self._memory, late, crashed=True)
            control.drain_left_over(db, self._memory)
            drained = control.drain(db, self._memory, SWEEP_PAGE) if self._memory.flows.draining else 0
            stale = db.execute(
                "SELECT id FROM jobs WHERE state = 'planning' AND planning_until < ? LIMIT 1", (now,)
            ).fetchall()
            removed = sum(remove_unfinished(db, self._memory, row[0]) for row in stale)
            old = db.execute(
                "DELETE FROM evidence WHERE task_id IN (SELECT task_id FROM evidence WHERE kept_until < ? LIMIT ?)",
                (now, SWEEP_PAGE),
            ).rowcount
            db.execute("DELETE FROM idempotency WHERE expires_at < ?", (now,))
            robots = db.execute(
                "DELETE FROM robots WHERE origin IN (SELECT origin FROM robots WHERE tried_at < ? LIMIT ?)",
                (now - OF_USE_MS, PRUNED_AT_ONCE),
            ).rowcount
            aged = control.age(db, self._memory, now)
            more = bool(self._memory.flows.draining) or bool(stale) or old >= SWEEP_PAGE
            woken = lanes.wake_sleepers(db, self._memory)
            return Swept(rescued, len(late), drained, removed, woken, old, more, aged, robots)

        return await self._run(command)

    async def archive(self, file: int, kind: str, records: Sequence[OldRecord]) -> bool:
        def command(db: sqlite3.Connection) -> None:
            archive(db, self._memory, file, kind, records)
            self._faults.at("archived")

        try:
            await self._run(command)
        except Conflict:
            return False
        return True

    def _walk(self, walk: Walk) -> RemovePage:
        async def page(limits: PruneLimits, after: Any) -> PageRemoved:
            def command(db: sqlite3.Connection) -> PageRemoved:
                removed = walk(db, self._memory, limits, after)
                self._faults.at("pruned")
                return removed

            return await self._run(command)

        return page

    # ── lanes ──

    async def pause_lane(self, name: str, *, paused: bool) -> None:
        def command(db: sqlite3.Connection) -> None:
            db.execute("UPDATE lanes SET paused = ? WHERE id = ?", (paused, self._memory.lane_id(db, name)))
            self._memory.flows.grew = True

        await self._run(command)

    # ── the store itself ──

    async def now(self) -> datetime:
        return datetime.fromtimestamp(self._now_ms() / 1000, UTC)

    async def now_ms(self) -> int:
        return self._now_ms()

    def _now_ms(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    async def _submit_announced(self, whole: Whole) -> Submitted | None:
        """Wake waiting workers at once: their lease is queued behind the submission, so it finds the work, and both may
        share one commit. Not after a submission that added nothing (refused by a full queue, or a repeat)."""
        told = self._brings_work
        if told:
            self._arrived.set()
        command = self._submit_told if told else self._submit_untold
        followed = told and self._listeners > 0
        submitted = None
        try:
            if len(whole.plans) <= SMALL:
                submitted = await self._writer.run_together(command, whole, followed=followed)
            else:  # many of these at once would be too many rows in memory
                (submitted,) = await self._writer.run(lambda db: command(db, [whole]), followed=followed)
        finally:
            self._brings_work = submitted is not None and submitted.created
        self._tell_of_work()
        return submitted

    async def _run(self, command: Callable[[sqlite3.Connection], T]) -> T:
        result = await self._writer.run(command)
        self._tell_of_work()
        return result

    def _tell_of_work(self) -> None:
        if self._memory.flows.grew:
            self._memory.flows.grew = False
            self._arrived.set()
        if self._memory.next_wake != self._alarm.at and not self._alarm.has_rung:
            self._alarm.set_for(self._memory.next_wake, self._now_ms())

    def _read_memory_again(self, db: sqlite3.Connection) -> None:
        memory = Memory.read(db, self._catalog, self._now_ms)
        memory.next_job = max(memory.next_job, self._memory.next_job)
        memory.next_task = max(memory.next_task, self._memory.next_task)
        self._memory = memory

    async def _take_over(self) -> None:
        """Rescue everything at once: we have the lock, so all earlier owners are dead."""

        def command(db: sqlite3.Connection) -> None:
            rescue_sessions(db, self._memory, [r[0] for r in db.execute("SELECT id FROM sessions")], crashed=True)
            # Examine every lane with work once: our clock may be behind the one that stored its wake-up time.
            db.execute("UPDATE lanes SET owner = NULL, wake_at = min(wake_at, ?)", (self._now_ms(),))
            db.execute("UPDATE jobs SET planning_until = 0 WHERE state = 'planning'")

        await self._run(command)

    def _submit_untold(self, db: sqlite3.Connection, asked: Sequence[Whole]) -> Sequence[Submitted | None]:
        submitted = submit_together(db, self._memory, asked)
        self._faults.at("job-written")
        return submitted

    def _submit_told(self, db: sqlite3.Connection, asked: Sequence[Whole]) -> Sequence[Submitted | None]:
        grew = self._memory.flows.grew
        submitted = self._submit_untold(db, asked)
        self._memory.flows.grew = grew  # once is enough
        return submitted

    @staticmethod
    def _is_alive(db: sqlite3.Connection, session: Session) -> bool:
        return db.execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).fetchone() is not None
