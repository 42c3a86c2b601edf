"""`Ledger` on PostgreSQL: every verb is one transaction; the only clock is the database's.

The caches of this process (numbers of lanes, the job that a lane served last, drains in progress) only save work: any
of them may be lost or out of date.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from forager.core.clock import Faults, NoFaults
from forager.core.errors import Conflict, StoreError
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
from forager.ledger.postgres import control, lanes
from forager.ledger.postgres.append import append, dispatch
from forager.ledger.postgres.changes import lock_jobs, log_job
from forager.ledger.postgres.connection import NOW, CommitGroup, Connections, Db, Listener, PostgresDatabase, tell
from forager.ledger.postgres.control import drain_page, end_session, pause_locked, rescue_late
from forager.ledger.postgres.lanes import join_lanes
from forager.ledger.postgres.lease import (
    HAS_SUSPECTS,
    NEXT_CLAIM,
    Round,
    claim_by_number,
    end_offers,
    held,
    lease,
    lease_suspects,
    mark_step,
    promote,
)
from forager.ledger.postgres.settle import PendingWrites, children_of, close, settle_rest, settle_tasks
from forager.ledger.postgres.submit import SWEEP_PAGE, Submissions, add_part, offer_more, open_job, remove_unfinished
from forager.ledger.postgres.upkeep import WALKS, Walk, age, archive, drop_old, drop_old_robots, restore, wake_sleepers
from forager.ledger.rules.jobs import Encoded, PlanPart, encode_all
from forager.ledger.rules.recheck import RecheckPage, Taken
from forager.ledger.rules.scheduling import written
from forager.ledger.rules.upkeep import PageRemoved, PruneLimits, RemovePage, Retention
from forager.ledger.rules.verbs import SharedVerbs

# Ending the queued tasks of jobs that are cancelled or out of budget, a page at a time.


_START = ("", "")


class Drain:
    def __init__(self, connections: Connections, catalog: Catalog) -> None:
        self._connections = connections
        self._catalog = catalog
        self._jobs: dict[int, tuple[str, str]] = {}
        """The start of the next page of each walk. Lost with the process: another process starts its sweep at the
        beginning."""

    @property
    def has_more(self) -> bool:
        return bool(self._jobs)

    def add(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            self._jobs.setdefault(job, _START)

    async def page(self, limit: int) -> int:
        """Look at up to `limit` tasks. Returns how many were ended."""
        if not self._jobs:
            return 0
        job, begin = next(iter(self._jobs.items()))
        ended, after = await self._connections.run(lambda db: drain_page(db, self._catalog, job, begin, limit))
        if after is None:
            self._jobs.pop(job, None)
        else:
            self._jobs[job] = after
        return ended


# Settles what ended, leases what fits, updates the counters and numbers the changes, all in one transaction.


# The session's row stays locked until the commit, so that neither a rescue nor a call of an ended session can
# interfere.
_BEGIN = f"""
SELECT n.now, (SELECT id FROM sessions WHERE id = $1 FOR KEY SHARE) AS session, {HAS_SUSPECTS} AS suspects,
       {NEXT_CLAIM} AS claim,
       array(SELECT id FROM lanes WHERE id = ANY($2::bigint[]) AND owner IN ($1, 0) AND NOT paused) AS own,
       EXISTS (SELECT 1 FROM queue WHERE lane_id = ANY($2::bigint[]) AND state = 1 AND due <= n.now) AS due
FROM (SELECT {NOW} AS now) n
"""


@dataclass(slots=True)
class SessionCache:
    """This process's cache for one of its sessions."""

    session: Session
    lanes: set[int] = field(default_factory=set)
    """Lanes that it owns …"""
    shared: set[int] = field(default_factory=set)
    """… and those that it shares with other sessions. It must be notified of new work in them."""
    last: dict[int, int] = field(default_factory=dict)
    """The job that was served last, by lane."""
    lost_an_answer: bool = False

    def forget(self, lanes: Iterable[int]) -> None:
        for lane in lanes:
            self.lanes.discard(lane)
            self.shared.discard(lane)
            self.last.pop(lane, None)


async def settle_and_lease(
    db: Db,
    catalog: Catalog,
    worker: SessionCache,
    settlements: Sequence[Settlement],
    children: Mapping[int, list[Encoded]],
    lanes: Mapping[str, int],
    wants: Sequence[Want],
    faults: Faults,
) -> tuple[LeaseBatch, set[int]]:
    """Return the batch, and the jobs that must be drained afterwards."""
    session = worker.session
    begun = await db.fetchrow(_BEGIN, session.id, [want.lane for want in wants])
    if begun is None:
        raise AssertionError("a SELECT from one row has one row")
    effect = PendingWrites(begun["now"], catalog.deltas())
    live = await settle_tasks(db, catalog, settlements, children, lanes, effect) if settlements else []
    leases = bool(wants) and begun["session"] is not None
    if leases and (begun["due"] or any(due <= effect.now for due in effect.due.values())):
        effect.promoted = await promote(db, begun["own"], effect.now)
    await settle_rest(db, catalog, live, frozenset(worker.lanes), effect)
    faults.at("settled")
    round_ = Round(session, begun["claim"], effect, worker.last)
    next_due: dict[int, int | None] = {}
    if leases:
        own = set(begun["own"])
        if any(want.tasks for want in wants):
            wants = await claim_by_number(db, round_, wants, own)
        next_due = await lease(db, round_, wants, own)
    faults.at("leased")
    decoding = asyncio.create_task(_decoded(catalog, round_.rows))  # while the server counts
    try:
        await _finish(db, catalog, effect, {row["job_id"] for row in round_.rows})
    except BaseException:
        decoding.cancel()
        raise
    return LeaseBatch(await decoding, effect.fenced, next_due, round_.limited, begun["suspects"]), effect.draining


async def lease_suspects_and_drain(
    db: Db, catalog: Catalog, session: Session, room: Mapping[int, int] | None
) -> tuple[list[Lease], set[int]]:
    begun = await db.fetchrow(_BEGIN, session.id, [])
    if begun is None or begun["session"] is None:
        return [], set()
    effect = PendingWrites(begun["now"])
    leases = await lease_suspects(db, catalog, session, begun["claim"], room, effect)
    await _finish(db, catalog, effect, {lease.job_id for lease in leases})
    return leases, effect.draining


async def _decoded(catalog: Catalog, rows: Sequence[Any]) -> list[Lease]:
    return catalog.leases(rows)


async def _finish(db: Db, catalog: Catalog, effect: PendingWrites, leased: Collection[int]) -> None:
    """Write the jobs' rows and the change log, in this order and last. `leased`: jobs with newly running tasks."""
    if effect.halted:
        await lock_jobs(db, effect.deltas.jobs())
        for job, reason in sorted(effect.halted.items()):
            if await pause_locked(db, job, reason):
                effect.changes.append(await log_job(db, job, "paused", {"reason": reason}))
    await close(
        db,
        catalog,
        effect.deltas,
        effect.now,
        leased=leased,
        changes=effect.changes,
        effects=effect.rows,
        hooked=effect.hooked,
    )


MOST_SESSIONS_PER_SWEEP = 20


class PostgresLedger(SharedVerbs):
    """Use `await PostgresLedger.open(...)`. The schema must be there already (`forager.ledger.schema.migrate`)."""

    announces_all = False  # a notification can be lost, and lanes wake up by the database's clock

    def __init__(
        self, connections: Connections, listener: Listener, catalog: Catalog, lease_seconds: float, faults: Faults
    ) -> None:
        self._connections = connections
        self._catalog = catalog
        self._lease_seconds = lease_seconds
        self._faults = faults
        self._lanes = lanes.LaneNumbers(connections, catalog)
        self._submissions = Submissions(connections, CommitGroup(connections), catalog, self._lanes, faults)
        self._listener = listener
        self._drain = Drain(connections, catalog)
        self._workers: dict[int, SessionCache] = {}
        self.database = PostgresDatabase(connections)
        self._retention = Retention(self.database, catalog, {name: self._walk(walk) for name, walk in WALKS.items()})

    @classmethod
    async def open(
        cls,
        url: str,
        catalog: Catalog,
        *,
        lease_seconds: float = 30.0,
        faults: Faults | None = None,
        pooled: bool = False,
        direct_url: str | None = None,
    ) -> "PostgresLedger":
        """Connect to a store. `pooled`: whether a pooler in transaction mode is in between. Notifications do not pass
        it: they come from `direct_url`, and without that the ledger is polled."""
        faults = faults or NoFaults()
        connections = await Connections.open(url, faults, lease=lease_seconds, pooled=pooled)
        listener = Listener(direct_url or (None if pooled else url))
        return cls(connections, listener, catalog, lease_seconds, faults)

    async def close(self) -> None:
        await self._listener.close()
        await self._connections.close()

    # ── jobs ──

    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        """Submit a job: in one transaction up to 20,000 tasks; a bigger one in chunks, and nothing of it can be leased
        before the last."""
        return await self._submissions.write(job, plan)

    async def open_job(self, job: NewJob) -> PartsReceived:
        return await self._connections.run(lambda db: open_job(db, job))

    async def add_part(self, job: UUID, first: int, plan: Iterable[Plan], *, more: bool) -> PartsReceived:
        part = PlanPart(job, first, await encode_all(plan, self._catalog), more)
        numbers = await self._lanes.learn_for(part.plans)
        return await self._connections.run(lambda db: add_part(db, part, numbers, self._catalog, self._faults))

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        encoded = await encode_all(plan, self._catalog)
        numbers = await self._lanes.learn_for(encoded)
        return await self._connections.run(lambda db: append(db, job, encoded, numbers, self._catalog, again=again))

    async def dispatch_page(self, page: RecheckPage) -> Taken:
        numbers, catalog = await self._lanes.learn_for(page.plans.values()), self._catalog
        contested: set[int] = set()
        return await self._connections.run(lambda db: dispatch(db, page, contested, numbers, catalog, self._faults))

    async def dispatch_pages(self, pages: Sequence[RecheckPage]) -> Sequence[Taken | Conflict]:
        """Dispatch one after another, each in a transaction of its own.

        A transaction locks tasks, flows and lanes before jobs. One that added to many jobs in turn would lock a job
        before the flows of the next, and could deadlock with a settlement. Nor can they run side by side: each holds
        the row of the recheck.
        """
        return [await self.try_page(page) for page in pages]

    async def write_restored(self, job: RestoredJob, lanes_: Mapping[int, str], last: LastNumbers) -> bool:
        known = await self._lanes.learn_named({lanes_[task.number]: task.kind for task in job.tasks})
        numbers = {task: known[name] for task, name in lanes_.items()}
        return await self._connections.run(lambda db: restore(db, self._catalog, job, numbers, last))

    async def pause(self, job: UUID, reason: str | None = None) -> None:
        await self._connections.run(lambda db: control.pause(db, job, reason))

    async def resume(self, job: UUID) -> None:
        await self._connections.run(lambda db: control.resume(db, self._catalog, job))

    async def prioritise(self, job: UUID, turn: int) -> None:
        await self._connections.run(lambda db: control.prioritise(db, job, turn))

    async def cancel(self, job: UUID) -> None:
        number = await self._connections.run(lambda db: control.cancel(db, job))
        if number is not None:
            self._drain.add([number])
            await self._drain.page(SWEEP_PAGE)

    async def retry(self, job: UUID, *, secrets: Mapping[str, str] | None = None) -> int:
        return await self._connections.run(lambda db: control.retry(db, self._catalog, job, secrets or {}))

    async def retry_tasks(self, tasks: Sequence[UUID]) -> int:
        return await self._connections.run(lambda db: control.retry_tasks(db, self._catalog, tasks))

    async def discard(self, task: UUID) -> None:
        await self._connections.run(lambda db: control.discard(db, task))

    # ── work ──

    async def begin(self, name: str, queues: Sequence[str] | None = None) -> Session:
        number = await self._connections.run(
            lambda db: db.fetchval(
                "INSERT INTO sessions (name, started_at, lease_until, queues)"
                f" VALUES ($1, {NOW}, {NOW} + $2, $3) RETURNING id",
                name,
                round(self._lease_seconds * 1000),
                written(queues),
            )
        )
        return Session(number, name, self._lease_seconds, None if queues is None else tuple(queues))

    async def beat(
        self, session: Session, lane_states: Mapping[int, Mapping[str, Any]], wants: int = 0
    ) -> datetime | None:
        """Heartbeat, in its own transaction: it must not wait for a transaction that has locked a lane."""
        now = await self._connections.run(
            lambda db: db.fetchval(
                f"UPDATE sessions SET lease_until = {NOW} + $2, wants = $3 WHERE id = $1 RETURNING {NOW}",
                session.id,
                round(session.lease * 1000),
                wants,
            )
        )
        if now is None:
            return None
        if lane_states:
            await self._connections.run(lambda db: lanes.keep_states(db, session.id, lane_states))
        return datetime.fromtimestamp(now / 1000, UTC)

    async def end(self, session: Session) -> None:
        self._workers.pop(session.id, None)
        while not (await self._connections.run(lambda db: end_session(db, self._catalog, session.id))).whole:
            pass

    async def take_lanes(self, session: Session, most: int) -> Sequence[OwnedLane]:
        if session.queues == ():
            return []
        worker = self._worker(session)
        taken: list[OwnedLane] = []
        if worker.lost_an_answer:  # the last `take` may have given us lanes in an answer that was lost
            taken = await self._connections.run(lambda db: self._unknown_lanes(db, session, worker, most))
        worker.lost_an_answer = True
        if len(taken) < most:
            taken += await self._connections.run(lambda db: self._take_lanes(db, worker, most - len(taken)))
        worker.lost_an_answer = False
        self._remember(worker, taken)
        return taken

    async def take_lane(self, session: Session, name: str) -> OwnedLane | Away:
        number = (await self._lanes.learn([name]))[name]

        async def command(db: Db) -> OwnedLane | Away:
            alive = await db.fetchrow(f"SELECT {NOW} FROM sessions WHERE id = $1 FOR KEY SHARE", session.id)
            return Away.ELSEWHERE if alive is None else await lanes.take_one(db, session, alive[0], number)

        owned = await self._connections.run(command)
        if isinstance(owned, OwnedLane):
            self._remember(self._worker(session), [owned])
        return owned

    async def surplus(self, session: Session) -> Mapping[str | None, int]:
        return await self._connections.run(lambda db: lanes.surplus(db, session.id))

    async def strayed(self, session: Session) -> Sequence[int]:
        return await self._connections.run(lambda db: lanes.strayed(db, session))

    async def queues_of_lanes(self, session: Session) -> Mapping[int, str]:
        return await self._connections.run(lambda db: lanes.queues_of_lanes(db, session.id))

    async def demand(self, session: Session, lanes_: Sequence[int], most: int) -> Demand:
        return await self._connections.run(lambda db: lanes.demand(db, session, lanes_, most))

    async def give_lanes(self, session: Session, lanes_: Mapping[int, GivenLane]) -> None:
        async def command(db: Db) -> None:
            await lanes.give(db, session.id, lanes_, await db.fetchval(f"SELECT {NOW}"))
            await tell(db)

        if lanes_:
            self._worker(session).forget(lanes_)
            await self._connections.run(command)

    async def settle_and_lease(
        self, session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]
    ) -> LeaseBatch:
        children = children_of(settlements, self._catalog)
        names = await self._lanes.learn_for(plan for plans in children.values() for plan in plans)
        worker = self._worker(session)
        done, draining = await self._connections.run(
            lambda db: settle_and_lease(db, self._catalog, worker, settlements, children, names, wants, self._faults)
        )
        await self._drain_a_little(draining)
        return done

    async def end_offers(self, tasks: Sequence[int]) -> None:
        await self._connections.run(lambda db: end_offers(db, tasks))

    async def lease_suspects(self, session: Session, room: Mapping[int, int] | None = None) -> Sequence[Lease]:
        leases, draining = await self._connections.run(
            lambda db: lease_suspects_and_drain(db, self._catalog, session, room)
        )
        await self._drain_a_little(draining)
        return leases

    async def mark_step(self, session: Session, lease: Lease, *, waits: bool) -> bool:
        return await self._connections.run(lambda db: mark_step(db, session, lease, waits=waits))

    async def held(self, session: Session) -> Sequence[Lease]:
        return await self._connections.run(lambda db: held(db, self._catalog, session))

    async def work_arrived(self, timeout: float) -> None:
        await self._listener.wait(timeout)

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        self._listener.when_jobs_end(tell)

    def when_jobs_change(self, tell: Callable[[Sequence[JobNews]], None]) -> None:
        self._connections.tell = tell

    async def sweep(self) -> Swept:
        """Sweep. Several processes may sweep at once: each dead session is rescued by one of them."""
        rescued = ended = 0
        for _ in range(MOST_SESSIONS_PER_SWEEP):
            page = await self._connections.run(lambda db: rescue_late(db, self._catalog))
            if page is None:
                break
            rescued += page.tasks
            ended += int(page.whole)
        self._drain.add(
            row["id"] for row in await self.database.fetch("SELECT id FROM jobs WHERE drain IS NOT NULL AND queued > 0")
        )
        drained = await self._drain.page(SWEEP_PAGE)
        removed = await self._connections.run(remove_unfinished)
        old = await self._connections.run(lambda db: drop_old(db, SWEEP_PAGE))
        robots = await self._connections.run(drop_old_robots)
        aged = await self._connections.run(age)
        woken = await self._connections.run(wake_sleepers)
        if self._catalog.offered:
            await self._connections.run(lambda db: offer_more(db, self._catalog))
        more = self._drain.has_more or removed is not None or old >= SWEEP_PAGE or ended == MOST_SESSIONS_PER_SWEEP
        return Swept(rescued, ended, drained, int(removed is True), woken, old, more, aged, robots)

    async def archive(self, file: int, kind: str, records: Sequence[OldRecord]) -> bool:
        async def command(db: Db) -> None:
            await archive(db, self._catalog, file, kind, records)
            self._faults.at("archived")

        try:
            await self._connections.run(command)
        except Conflict:
            return False
        return True

    def _walk(self, walk: Walk) -> RemovePage:
        async def page(limits: PruneLimits, after: Any) -> PageRemoved:
            async def command(db: Db) -> PageRemoved:
                removed = await walk(db, self._catalog, limits, after)
                self._faults.at("pruned")
                return removed

            return await self._connections.run(command)

        return page

    # ── lanes ──

    async def pause_lane(self, name: str, *, paused: bool) -> None:
        number = (await self._lanes.learn([name]))[name]

        async def command(db: Db) -> None:
            await db.execute("UPDATE lanes SET paused = $2 WHERE id = $1", number, paused)
            await tell(db)

        await self._connections.run(command)

    # ── the store itself ──

    async def now(self) -> datetime:
        return datetime.fromtimestamp(await self.now_ms() / 1000, UTC)

    async def now_ms(self) -> int:
        rows = await self.database.fetch(f"SELECT {NOW} AS now")
        return int(rows[0]["now"])

    def _worker(self, session: Session) -> SessionCache:
        return self._workers.setdefault(session.id, SessionCache(session))

    @staticmethod
    def _remember(worker: SessionCache, taken: Iterable[OwnedLane]) -> None:
        for lane in taken:
            (worker.shared if lane.shared else worker.lanes).add(lane.id)

    @staticmethod
    async def _take_lanes(db: Db, worker: SessionCache, most: int) -> list[OwnedLane]:
        # Locked until the commit, so that the session cannot be ended while it takes lanes.
        session = worker.session
        alive = await db.fetchrow(lanes.ALIVE, session.id, list(worker.shared))
        if alive is None:
            return []
        now, shared, by_queue = alive["now"], alive["shared"], alive["by_queue"]
        joined = await join_lanes(db, session, worker.shared, now, most) if alive["to_join"] else []
        if len(joined) == most:
            return joined
        return joined + await lanes.take(db, session, now, most - len(joined), shared=shared, by_queue=by_queue)

    @staticmethod
    async def _unknown_lanes(db: Db, session: Session, worker: SessionCache, most: int) -> list[OwnedLane]:
        now = await db.fetchval(f"SELECT {NOW}")
        return await lanes.owned_but_unknown(db, session.id, worker.lanes, now, most)

    async def _drain_a_little(self, jobs: Iterable[int]) -> None:
        """Drain after the transaction is committed: its leases must not be lost to a failure here."""
        self._drain.add(jobs)
        try:
            await self._drain.page(DRAIN_PER_TURN)
        except StoreError:
            return  # the sweep continues with it


DRAIN_PER_TURN = 500
