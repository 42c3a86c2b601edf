"""`Ledger` on PostgreSQL: every verb is one transaction; the only clock is the database's.

What this process caches (numbers of lanes, the job of a lane that was served last, drains in progress) only saves work:
all of it may be lost or out of date.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from forager.core.archive import OldRecord
from forager.core.errors import Conflict, StoreError
from forager.core.faults import Faults, NoFaults
from forager.core.ledger import (
    Away,
    Demand,
    GivenLane,
    JobNews,
    Lease,
    LeaseBatch,
    NewJob,
    OwnedLane,
    Received,
    Session,
    Settlement,
    Submitted,
    Swept,
    Want,
)
from forager.core.restored import LastNumbers, RestoredJob
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.postgres import control, lanes
from forager.ledger.postgres.append import append
from forager.ledger.postgres.archive import archive
from forager.ledger.postgres.connection import NOW, Connections, Db
from forager.ledger.postgres.database import PostgresDatabase
from forager.ledger.postgres.drain import Drain
from forager.ledger.postgres.group import CommitGroup
from forager.ledger.postgres.listen import Listener, tell
from forager.ledger.postgres.offers import end_offers
from forager.ledger.postgres.parts import add_part, open_job
from forager.ledger.postgres.prune import WALKS, Walk
from forager.ledger.postgres.rescue import end_session, rescue_late
from forager.ledger.postgres.restore import restore
from forager.ledger.postgres.settle import children_of
from forager.ledger.postgres.settle_and_lease import Worker, lease_suspects_and_drain, settle_and_lease
from forager.ledger.postgres.shared_lanes import join_lanes
from forager.ledger.postgres.submission import Submissions
from forager.ledger.postgres.submit import SWEEP_PAGE, remove_unfinished
from forager.ledger.postgres.suspects import held, mark_step
from forager.ledger.postgres.sweep import age, drop_old, drop_old_robots, wake_sleepers
from forager.ledger.postgres.watches import dispatch
from forager.ledger.shared.fair_share import written
from forager.ledger.shared.plan_encoding import Part, encode_all
from forager.ledger.shared.retention import Limits, Removed, RemovePage, Retention
from forager.ledger.shared.verbs import SharedVerbs
from forager.ledger.shared.watch_page import Taken, WatchPage

MOST_SESSIONS_PER_SWEEP = 20


class PostgresLedger(SharedVerbs):
    """Use `await PostgresLedger.open(...)`. The schema must be there already (`forager.ledger.schema.migrate`)."""

    tells_all = False  # a notification can be lost, and lanes wake up by the database's clock

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
        self._workers: dict[int, Worker] = {}
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

    async def open_job(self, job: NewJob) -> Received:
        return await self._connections.run(lambda db: open_job(db, job))

    async def add_part(self, job: UUID, first: int, plan: Iterable[Plan], *, more: bool) -> Received:
        part = Part(job, first, await encode_all(plan, self._catalog), more)
        numbers = await self._lanes.learn_for(part.plans)
        return await self._connections.run(lambda db: add_part(db, part, numbers, self._catalog, self._faults))

    async def append(self, job: NewJob, plan: Iterable[Plan], *, again: bool = False) -> Submitted:
        encoded = await encode_all(plan, self._catalog)
        numbers = await self._lanes.learn_for(encoded)
        return await self._connections.run(lambda db: append(db, job, encoded, numbers, self._catalog, again=again))

    async def dispatch_page(self, page: WatchPage) -> Taken:
        numbers, catalog = await self._lanes.learn_for(page.plans.values()), self._catalog
        contested: set[int] = set()
        return await self._connections.run(lambda db: dispatch(db, page, contested, numbers, catalog, self._faults))

    async def dispatch_pages(self, pages: Sequence[WatchPage]) -> Sequence[Taken | Conflict]:
        """Dispatch one after another, each in a transaction of its own.

        A transaction locks tasks, flows and lanes before jobs. One that added to many jobs in turn would lock a job
        before the flows of the next, and could deadlock with a settlement. Nor can they run side by side: each holds
        the row of the watch.
        """
        return [await self.try_page(page) for page in pages]

    async def write_restored(self, job: RestoredJob, lanes_: Mapping[int, str], last: LastNumbers) -> bool:
        known = await self._lanes.learn_named({lanes_[task.number]: task.kind for task in job.tasks})
        numbers = {task: known[name] for task, name in lanes_.items()}
        return await self._connections.run(lambda db: restore(db, self._catalog, job, numbers, last))

    async def pause(self, job: UUID, reason: str | None = None) -> None:
        await self._connections.run(lambda db: control.pause(db, job, reason))

    async def resume(self, job: UUID) -> None:
        await self._connections.run(lambda db: control.resume(db, job))

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
            return Away.ELSEWHERE if alive is None else await lanes.take_one(db, session.id, alive[0], number)

        owned = await self._connections.run(command)
        if isinstance(owned, OwnedLane):
            self._remember(self._worker(session), [owned])
        return owned

    async def surplus(self, session: Session) -> Mapping[str | None, int]:
        return await self._connections.run(lambda db: lanes.surplus(db, session.id))

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
        async def page(limits: Limits, after: Any) -> Removed:
            async def command(db: Db) -> Removed:
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

    def _worker(self, session: Session) -> Worker:
        return self._workers.setdefault(session.id, Worker(session))

    @staticmethod
    def _remember(worker: Worker, taken: Iterable[OwnedLane]) -> None:
        for lane in taken:
            (worker.shared if lane.shared else worker.lanes).add(lane.id)

    @staticmethod
    async def _take_lanes(db: Db, worker: Worker, most: int) -> list[OwnedLane]:
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
    async def _unknown_lanes(db: Db, session: Session, worker: Worker, most: int) -> list[OwnedLane]:
        now = await db.fetchval(f"SELECT {NOW}")
        return await lanes.owned_but_unknown(db, session.id, worker.lanes, now, most)

    async def _drain_a_little(self, jobs: Iterable[int]) -> None:
        """Drain after the transaction is committed: its leases must not be lost to a failure here."""
        self._drain.add(jobs)
        try:
            await self._drain.page(DRAIN_PER_TURN)
        except StoreError:
            return  # the sweep goes on with it


DRAIN_PER_TURN = 500
