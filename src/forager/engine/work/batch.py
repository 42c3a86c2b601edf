"""Work on single jobs in batches: lease some tasks of a job, attempt them, settle them.

For runners that show each phase to a person, such as Prefect. A `BatchWork` uses the parts of a `Worker` in place of
its loop, so lanes, limits, retries and fences are the same; never run both. A heartbeat in parallel with the batches
keeps the session alive. If the session is lost, the unsettled attempts are dropped, and the next batch begins with a
new session.

While the store does not answer, a phase waits for it instead of failing: a settlement can be repeated, because its
claim fences it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog

from forager.core.errors import StoreError
from forager.core.ledger import Lease, LedgerQueue, Session, Settlement, Want
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.ownership import OwnedLanes
from forager.engine.waits import AHEAD, BACK_OFF, TOGETHER, back_off
from forager.engine.work.heartbeat import Heartbeat, StoreClock
from forager.engine.work.settle import InFlight, OnSettled, settle_apart, settle_together
from forager.engine.work.stats import WorkStats

log = structlog.get_logger("forager.engine")

T = TypeVar("T")


class BatchWork:
    """The phases of a batch. Made by `Worker.batches`; use it inside `running`."""

    def __init__(
        self,
        ledger: LedgerQueue,
        heart: Heartbeat,
        lanes: OwnedLanes,
        flight: InFlight,
        clock: StoreClock,
        stats: WorkStats,
        report: OnSettled,
    ) -> None:
        self._ledger = ledger
        self._heart = heart
        self._lanes = lanes
        self._flight = flight
        self._clock = clock
        self._stats = stats
        self._report = report
        self._leased: list[Lease] = []
        self._rest: tuple[int, Collection[str], int] | None = None
        """The part of the batch that is not leased yet: the job, its lanes, and the number of tasks."""
        self._stored: list[Settlement] = []
        """Attempts of this batch that were settled while others of it still ran."""
        self._suspects = False
        """True if tasks of a dead worker wait to be leased, alone."""
        self._unsure = False
        """True if the store may have leased us tasks in an answer that was lost."""
        self._renewing = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold a session while the block runs. At the end, unsettled attempts return to the queue, and the lanes are
        given back.

        If the heartbeat fails for another reason than the store, the next phase raises its error, and so does the end
        of the block."""
        await self._heart.begin()
        self._beating = asyncio.create_task(self._beat_forever())
        try:
            yield
        finally:
            try:
                await self._stop_beating()
            finally:
                await self._end()

    async def lease(self, job: int, lanes: Collection[str], most: int) -> Sequence[Lease]:
        """Begin a batch of up to `most` ready tasks of a job in these lanes. Returns the tasks that start first.

        These may be fewer than `most`: the job's concurrency, the lane's limits or the owner of the lane allow no more
        now. `attempt` leases the rest as soon as others have ended. Tasks that were in flight when a worker died come
        first and by themselves, whichever job of these lanes has them.
        """
        self._flight.give_back(self._leased, "Its batch was not attempted.")
        self._leased, self._rest = [], None
        self._leased = list(await self._persist(lambda: self._lease(job, lanes, most)))
        if self._leased:
            self._rest = (job, lanes, most - len(self._leased))
        return tuple(self._leased)

    async def attempt(self) -> Sequence[Settlement]:
        """Run the tasks of the batch until each has ended. Returns how they ended.

        A batch larger than the job's concurrency is refilled: attempts that have ended are settled, and the next tasks
        of the batch take their place, so that the requests in flight stay at the limit. The others are stored by
        `settle`.
        """
        leased, self._leased = self._leased, []
        if not self._heart.alive:
            return ()  # they are no longer ours
        self._flight.start(leased)
        while self._flight.running:
            if self._rest is None or self._rest[2] <= 0:
                await asyncio.wait(self._flight.running)
            else:
                await asyncio.wait(self._flight.running, return_when=asyncio.FIRST_COMPLETED)
                await self._clock.sleep(TOGETHER)
                await self._refill(*self._rest)
        self._rest = None
        return (*self._stored, *self._flight.finished)

    async def settle(self) -> Sequence[Settlement]:
        """Store how the attempts ended, in one transaction. Returns those of the batch that were stored: a settlement
        whose claim was lost has no effect."""
        last = await self._persist(self._settle)
        stored, self._stored = self._stored, []
        return (*stored, *last)

    async def _refill(self, job: int, lanes: Collection[str], most: int) -> None:
        """Settle the attempts that have ended, and start as many tasks of the rest of the batch as the limits allow."""
        self._stored += await self._persist(self._settle)
        leases = await self._persist(lambda: self._lease(job, lanes, most))
        self._rest = (job, lanes, most - len(leases))
        self._flight.start(leases)

    async def _lease(self, job: int, lanes: Collection[str], most: int) -> Sequence[Lease]:
        session = await self._session()
        if self._unsure:
            await self._reconcile(session)
        owned = [lane for name in lanes if isinstance(lane := await self._lanes.take_named(session, name), LaneRun)]
        if self._suspects and not self._flight.running:
            suspects = await self._ledger.lease_suspects(
                session, {lane.id: min(most, lane.room(most)) for lane in owned}
            )
            self._suspects = bool(suspects)
            if suspects:
                return suspects
        wants: list[Want] = []
        for lane in owned:
            part = lane.most(most, AHEAD)
            if part > 0:
                wants.append(Want(lane.id, part, job))
                most -= part
        if not wants:
            return ()
        batch = await self._ledger.settle_and_lease(session, [], wants)
        self._stats.transactions += 1
        self._suspects = batch.suspects
        return batch.leases

    async def _settle(self) -> Sequence[Settlement]:
        session = await self._session()
        finished = self._flight.take_finished()
        if not finished:
            return ()
        left, began = list(finished), self._clock.monotonic()
        try:
            fenced = await self._settle_these(session, left)
        except BaseException:
            self._flight.finished[:0] = left
            raise
        self._stats.settling.add(self._clock.monotonic() - began)
        self._stats.transactions += 1
        self._stats.fenced += len(fenced)
        settled = [each for each in finished if each.lease.task_id not in fenced]
        self._stats.settled(settled)
        if settled:
            self._report(settled)
        return settled

    async def _settle_these(self, session: Session, left: list[Settlement]) -> set[int]:
        batch = await settle_together(self._ledger, session, left)
        return set(await settle_apart(self._ledger, session, left) if batch is None else batch.fenced)

    async def _persist(self, phase: Callable[[], Awaitable[T]]) -> T:
        """Repeat a phase until the store has answered."""
        failures = 0
        while True:
            try:
                answer = await phase()
            except StoreError as error:
                if self._stats.trouble is None:
                    log.error("store_unavailable", error=error.message)
                self._stats.trouble, self._unsure = error.message, True
                await self._clock.sleep(back_off(failures))
                failures += 1
            else:
                self._stats.trouble = None
                return answer

    async def _reconcile(self, session: Session) -> None:
        """Return tasks to the queue that we lease without knowing it, because an answer of the store was lost."""
        known = self._flight.known()
        unheard = [each for each in await self._ledger.held(session) if (each.task_id, each.claim) not in known]
        self._flight.give_back(unheard, "The lease's confirmation was lost.")
        await self._settle()
        self._unsure = False

    # ── the session ──

    async def _session(self) -> Session:
        """Return the living session; begin a new one if it was lost. Raises the error that ended the heartbeat."""
        if self._beating is not None and self._beating.done():
            self._beating.result()
        async with self._renewing:
            if self._heart.session is None or not self._heart.alive:
                await self._drop()
                await self._heart.begin()
            if self._heart.session is None:
                raise AssertionError("a heart that has begun has a session")
            return self._heart.session

    async def _beat_forever(self) -> None:
        while True:
            await self._clock.sleep(max(0.0, self._heart.next_at - self._clock.monotonic()))
            try:
                async with self._renewing:
                    session = self._heart.session
                    lost = session is not None and not await self._heart.beat(session, self._lanes.states(), 0)
                    if lost:
                        self._stats.lost += 1
                        log.warning("session_expired")
                        await self._drop()
                        await self._heart.begin()
            except StoreError:
                await self._clock.sleep(BACK_OFF[-1])

    async def _stop_beating(self) -> None:
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating

    async def _drop(self) -> None:
        """Forget everything that the lost session held."""
        self._leased.clear()
        self._rest = None
        await self._flight.abandon()
        self._lanes.clear()

    async def _end(self) -> None:
        self._flight.give_back(self._leased, "Given back at a stop.")
        self._leased = []
        self._flight.cancel()
        while self._flight.running:
            await asyncio.wait(self._flight.running)
        session = self._heart.session
        if session is None or not self._heart.alive:
            await self._drop()
            return
        try:
            await self._settle()
            await self._lanes.give_all(session)
            await self._ledger.end(session)
        except StoreError as error:
            log.warning("session_not_ended", error=error.message)
