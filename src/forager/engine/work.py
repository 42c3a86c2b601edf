"""The worker: keeps every lane at its limit until it is stopped.

It leases what fits, runs it, and settles what is done, in groups but never in lockstep. The heartbeat comes from this
same loop, so that a worker whose loop is stuck loses its session. A session that is late sends nothing more, by its own
monotonic clock.
"""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import structlog

from forager.core.blobs import Blobs
from forager.core.clock import Clock
from forager.core.errors import StoreError
from forager.core.http import Fetch
from forager.core.ledger import Away, Lease, LeaseBatch, Ledger, Session, Settlement, Want
from forager.core.offload import InThread, Offload
from forager.core.pipeline import Pipeline, StepFunction
from forager.core.proxies import Proxies
from forager.core.robots import Robots
from forager.core.secret import JobSecrets
from forager.core.timing import TimeLimit
from forager.engine.attempt import PATIENCE
from forager.engine.batch import BatchWork
from forager.engine.claims import Claims
from forager.engine.heartbeat import BEATS_PER_LEASE, Heartbeat
from forager.engine.in_flight import InFlight
from forager.engine.lane import HORIZON, LaneRun
from forager.engine.lane_fairness import by_turn, share_out
from forager.engine.lane_fetch import Surroundings
from forager.engine.lane_ownership import OwnedLanes
from forager.engine.rules import DeclaredLanes, LaneRules
from forager.engine.settle_singly import settle_apart, settle_together
from forager.engine.stats import WorkStats
from forager.engine.step_table import StepTable
from forager.engine.store_clock import StoreClock
from forager.engine.suspects import SuspectLook

log = structlog.get_logger("forager.engine")

LINGER = 0.005
"""After an attempt has ended, wait so long for others, because a group costs one commit."""
ENOUGH = 64
POLL = 1.0
"""Interval at which a worker looks for work by itself, because the store may not announce all of it."""
MOST_LANES = 1_000
BACK_OFF = (0.1, 0.5, 1.0, 2.0)


class Worker:
    def __init__(
        self,
        ledger: Ledger,
        pipelines: Sequence[Pipeline],
        fetch: Fetch,
        clock: Clock,
        *,
        name: str = "worker",
        capacity: int = 1_000,
        rules: LaneRules | None = None,
        robots: Robots | None = None,
        proxies: Proxies | None = None,
        job_secrets: JobSecrets | None = None,
        blobs: Blobs | None = None,
        offload: Offload | None = None,
        random: Random | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.stats = WorkStats(frozenset[str]().union(*(p.reasons for p in pipelines)))
        self._ledger = ledger
        self._clock = StoreClock(clock)
        self._heart = Heartbeat(ledger, self._clock, name)
        self._capacity = capacity
        self._random = (random or Random()).random  # noqa: S311 - jitter, not a secret
        self._steps = StepTable(pipelines)
        most, lane_rules = min(MOST_LANES, capacity), rules or DeclaredLanes(pipelines)
        self._lanes = OwnedLanes(
            ledger, lane_rules, self._clock, self._steps, most=most, random=self._random, tally=self.stats.lanes
        )
        self._wake = asyncio.Event()
        self.claims = Claims(ledger, self._lanes, self._clock, self._wake.set)
        """Tasks that were named to this worker, to be claimed by number."""
        around = (fetch, lambda: self.alive, self._lane_of, robots, proxies, job_secrets)
        self._around = Surroundings(*around, self._wake.set, self._lanes.use, blobs, offload or InThread())
        self._flight = InFlight(
            self._lanes,
            self._steps,
            self._around,
            self._clock,
            self.stats,
            mark=self._mark_step,
            random=self._random,
            patience=patience,
        )
        self._told: list[Callable[[Sequence[Settlement]], None]] = []
        self._limited: set[int] = set()
        """Lanes with more tasks than the limits of their jobs allowed: leased again after the next settlement."""
        self._stopping = self._out_of_grace = False
        self._unsure = False
        """Whether the store may have leased us tasks in an answer that was lost."""
        self._suspects = SuspectLook()

    # ── life ──

    async def run(self, *, until_idle: bool = False) -> None:
        """Work until `stop()`; with `until_idle`, until there is nothing left to do now or later."""
        session = await self._heart.begin()
        listener = asyncio.create_task(self._listen(session.lease / BEATS_PER_LEASE))
        listener.add_done_callback(lambda _: self._wake.set())
        try:
            await self._work(session, listener, until_idle=until_idle)
        finally:
            listener.cancel()
            await self._abandon()

    def stop(self) -> None:
        """Lease nothing more. `run` returns when in-flight tasks have ended, or when `drain` gives up on them."""
        self._stopping = True
        self._lanes.leave()  # each is given back as soon as nothing of it is in flight, so that others can take it
        self._wake.set()

    def reopen(self) -> None:
        """Allow another `run` after a stop. Not part of `run`, because a stop may come before that has begun."""
        self._stopping = self._out_of_grace = False

    async def drain(self, grace: float) -> None:
        """Stop. Tasks that have not ended after `grace` seconds return to the queue without burning an attempt."""
        self.stop()
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(self._clock, grace):
                while self._flight.running:
                    await asyncio.wait(self._flight.running)
        self._flight.cancel()
        self._out_of_grace = True

    def serve(self, queues: Sequence[str] | None, *, shift: bool = False) -> None:
        """Take only lanes of these queues, from the next session on; None: of all queues. `shift`: the sessions are
        marked as shifts (`heartbeat.SHIFT`)."""
        self._heart.queues, self._heart.is_shift = queues, shift

    def perform(self, duties: Mapping[str, StepFunction]) -> None:
        """Give the steps made with `duty` their functions, by kind of task, before the worker runs."""
        self._steps.perform(duties)

    def when_settled(self, tell: Callable[[Sequence[Settlement]], None]) -> None:
        """Register a callback that is called with every group of attempts right after it was settled."""
        self._told.append(tell)

    def batches(self) -> BatchWork:
        """Return this worker's parts for work in batches, in place of `run`."""
        return BatchWork(
            self._ledger, self._heart, self._lanes, self._flight, self._clock, self.stats, self._tell_settled
        )

    @property
    def in_flight(self) -> int:
        return len(self._flight)

    @property
    def is_busy(self) -> bool:
        """Whether something is in flight or not settled yet, or a lane with work only waits until it may send again."""
        return bool(self._flight.running or self._flight.finished or self._lanes.wait_to_send())

    def pipeline_of(self, kind: str) -> str:
        """The pipeline that has a step for tasks of this kind."""
        return self._steps.pipeline_of(kind)

    @property
    def lanes_owned(self) -> int:
        return sum(1 for _ in self._lanes)

    def breakers(self) -> Mapping[str, str]:
        """The lanes of this process whose breaker is not closed, with its state."""
        return self._lanes.breakers()

    @property
    def session(self) -> Session | None:
        """The session while it is alive. The lanes of this process's sinks belong to it, too."""
        return self._heart.session if self.alive else None

    @property
    def alive(self) -> bool:
        """Whether the session is alive. Health reports an error if not."""
        return self._heart.alive

    def lane_state(self, name: str) -> Mapping[str, Any] | None:
        """Return a lane's current state; None if this worker does not own it."""
        return self._lanes.state_of(name)

    async def _work(self, session: Session, listener: asyncio.Task[None], *, until_idle: bool) -> None:
        failures = 0
        while not (self._stopping and not self._flight.running and not self._flight.finished):
            if listener.done():
                listener.result()  # cannot hear of new work: better to fail than to be idle for ever
            try:
                session = await self._keep_alive(session)
                if self._unsure:
                    await self._reconcile(session)
                await self._settle_and_refill(session)
                if until_idle and not (self._flight.running or self._flight.finished or await self._ledger.has_work()):
                    break  # every job has ended or is paused
                failures, self.stats.trouble = 0, None
            except StoreError as error:
                self._report_trouble(error)
                self._unsure = True
                if self._out_of_grace:
                    return  # what is not settled returns to the queue when our lease expires
                await self._clock.sleep(BACK_OFF[min(failures, len(BACK_OFF) - 1)])
                failures += 1
                continue
            await self._until_something_changes(POLL if until_idle else math.inf)
        try:
            await self._lanes.give_all(session)
            await self._ledger.end(session)
        except StoreError as error:
            log.warning("the session could not be ended; it ends with its lease", error=error.message)

    async def _settle_and_refill(self, session: Session) -> None:
        """Settle what ended and lease what fits, in one transaction. It never waits for lanes still to be taken."""
        suspects = self._suspects.is_due(self._clock.monotonic())
        wants = [] if self._stopping or suspects else await self._wants(session)
        finished, news = self._flight.take_finished(), self._lanes.news
        if finished or wants:
            began = self._clock.monotonic()
            batch = await self._settle_and_lease(session, finished, wants)
            self.stats.settling.add(self._clock.monotonic() - began)
            self._note(finished, wants, batch)
            self._start(batch.leases)
            self._lanes.heard(news, more=batch.lanes_to_take)
        if self._lanes.look and not self._stopping and await self._lanes.take(session):
            self._wake.set()
        if suspects and not self._flight.running and not self._stopping:
            await self._run_suspects(session)
        if await self._lanes.give_back_idle(session, {s.lease.lane for s in self._flight.finished}):
            self._wake.set()  # others wait for the place

    async def _settle_and_lease(self, session: Session, finished: list[Settlement], wants: list[Want]) -> LeaseBatch:
        left = list(finished)
        for want in wants:  # before the transaction, so that whatever happens during it makes its lane hungry again
            self._lanes[want.lane].hungry = False
        try:
            batch = await settle_together(self._ledger, session, left, wants)
            if batch is None:
                batch = LeaseBatch(fenced=await settle_apart(self._ledger, session, left))
                self.claims.put_back(wants)
            elif self.claims.in_use:
                self.claims.claimed(wants, batch)
            return batch
        except BaseException:
            self._flight.finished[:0] = left
            self.claims.put_back(wants)
            for want in wants:
                self._lanes[want.lane].hungry = True
            raise

    async def _wants(self, session: Session) -> list[Want]:
        if self.claims:
            await self.claims.open_lanes(session)
        now = self._clock.monotonic()
        for lane in self._lanes:
            if lane.due is not None and lane.due <= now:
                lane.hungry, lane.due = True, None
        hungry = [lane for lane in self._lanes if lane.hungry and not lane.leaving]
        free = self._capacity - len(self._flight)
        if free <= 0:
            return []
        wants, short = share_out(hungry, free)
        if short and len(hungry) > 1:  # there is not enough room for all: only now does their order matter
            await self._lanes.ask_turns(session)
            wants, _ = share_out(by_turn(hungry), self._capacity - len(self._flight))
        return self.claims.name_tasks(wants) if self.claims else wants

    def _note(self, finished: list[Settlement], wants: list[Want], batch: LeaseBatch) -> None:
        """Learn from a batch: which lanes have nothing more, and that something was refused."""
        self.stats.transactions += 1
        self.stats.fenced += len(batch.fenced)
        refused = set(batch.fenced)
        settled = [s for s in finished if s.lease.task_id not in refused] if refused else finished
        self.stats.settled(settled)
        self.claims.settled(finished)
        if settled:
            self._tell_settled(settled)
        now = self._clock.monotonic()
        got = Counter([lease.lane for lease in batch.leases])
        for number, count in got.items():
            self._lanes[number].served = (now, count)
        if settled and self._limited:
            self._lanes.make_hungry(self._limited.difference(want.lane for want in wants))
            self._limited.clear()
        self._limited |= batch.next_due.keys() & set(batch.limited)
        for want in wants:
            lane = self._lanes[want.lane]
            if want.lane not in batch.next_due:
                lane.hungry = True
            elif want.lane in got and want.lane in batch.limited:  # by a batch size, maybe: ask again at once
                lane.hungry = True
                self._wake.set()
            elif (due := batch.next_due[want.lane]) is not None:
                lane.due = now + max(HORIZON / 4, due / 1000 - self._clock.now().timestamp())
        if batch.suspects:
            self._suspects.expect(now)

    def _tell_settled(self, settled: Sequence[Settlement]) -> None:
        for tell in self._told:
            tell(settled)

    def _start(self, leases: Sequence[Lease]) -> None:
        if self._stopping:  # this lease was under way when the stop came
            self._flight.give_back(leases, "Given back at a stop.")
        else:
            self._flight.start(leases)

    async def _until_something_changes(self, longest: float) -> None:
        """Wait until an attempt ends, work arrives, a lane may send again or go back, or a task or heartbeat is due."""
        if not self._flight.finished and (self._flight.running or not self._stopping):
            now = self._clock.monotonic()
            times = [self._heart.next_at, now + longest]
            if not self._stopping:
                times += [at for lane in self._lanes if (at := lane.wake_time(now)) is not None]
                times.append(self._lanes.next_look(now))
            if self._suspects.at is not None and not self._flight.running:
                times.append(self._suspects.at)
            timer = self._clock.call_later(max(0.0, min(times) - now), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
        if 0 < len(self._flight.finished) < ENOUGH and self._flight.running:
            await self._clock.sleep(LINGER)
        self._wake.clear()

    # ── lanes ──

    async def _lane_of(self, url: str, own: LaneRun) -> LaneRun | Away:
        return await self._lanes.of_url(self._heart.session, url, own)

    def adopt_rules(self) -> None:
        """Apply changed rules to every lane that we own."""
        self._lanes.adopt_rules()
        self._wake.set()

    async def _listen(self, rarely: float) -> None:
        """Wait for new work, or for some time to pass; then every lane is worth another lease."""
        poll = rarely if self._ledger.tells_all else POLL
        while True:
            try:
                await self._ledger.work_arrived(poll)
            except StoreError:
                await self._clock.sleep(POLL)
            self._lanes.expect_work()
            self._wake.set()

    async def _mark_step(self, lease: Lease, waits: bool) -> bool:
        session = self.session
        return session is not None and await self._ledger.mark_step(session, lease, waits=waits)

    async def _run_suspects(self, session: Session) -> None:
        room = {lane.id: lane.room(self._capacity) for lane in self._lanes}
        leases = await self._ledger.lease_suspects(session, room)
        if leases:
            log.info("retrying tasks that were in flight at the crash", together=len(leases))
            self._start(leases)
            return
        self._suspects.found_none(self._clock.monotonic())
        self._lanes.make_hungry()

    # ── staying alive ──

    async def _keep_alive(self, session: Session) -> Session:
        turned = [lane for lane in self._lanes if lane.turned]
        takes_none = self._stopping or session.queues == ()
        wants = 0 if takes_none else self._lanes.could_take(self._capacity - len(self._flight))
        if not turned and not self._heart.is_due(wants):
            return session
        for lane in turned:  # written at once, so that the next owner sees the open breaker
            lane.turned = False
        if await self._heart.beat(session, self._lanes.states(), wants):
            return session
        log.warning("the session was lost; what it held is not ours any more", session=session.id)
        self.stats.lost += 1
        await self._abandon()
        return await self._heart.begin()

    async def _abandon(self) -> None:
        """Drop everything that we hold: the session is lost."""
        await self._flight.abandon()
        self._lanes.clear()
        self.claims.lose()

    async def _reconcile(self, session: Session) -> None:
        """Give back leases that we hold without knowing it: a transaction was committed, and its answer was lost.

        Nothing is leased before this has succeeded: a lease that the worker does not know of would be held as long as
        its session lives.
        """
        held, known = await self._ledger.held(session), self._flight.known()
        unheard = [lease for lease in held if (lease.task_id, lease.claim) not in known]
        self._flight.give_back(unheard, "The lease's confirmation was lost.")
        self._unsure = False

    def _report_trouble(self, error: StoreError) -> None:
        """Log the trouble. Leasing stops until the store answers again."""
        if self.stats.trouble is None:
            log.error("the store does not take work; leasing stops until it does", error=error.message)
        self.stats.trouble = error.message
