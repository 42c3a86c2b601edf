"""The worker: keeps every lane at its limit until it is stopped.

It leases what fits, runs it, and settles what is done, in groups but never in lockstep. The heartbeat comes from this
same loop, so that a worker whose loop is stuck loses its session. A session that is late sends nothing more, by its own
monotonic clock.
"""

import asyncio
import contextlib
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import structlog

from forager.core.clock import Clock, TimeLimit
from forager.core.errors import StoreError
from forager.core.ledger import Away, Lease, LeaseBatch, LedgerQueue, Session, Settlement, Want
from forager.core.pipeline import Pipeline, StepFunction, StepTable
from forager.engine.lanes.fetch import Resources, Surroundings
from forager.engine.lanes.lane import DeclaredLanes, LaneRules, LaneRun
from forager.engine.lanes.ownership import OwnedLanes, by_turn, share_out
from forager.engine.waits import HORIZON, LINGER, PATIENCE, POLL, back_off
from forager.engine.work.attempt import SuspectLook
from forager.engine.work.batch import BatchWork
from forager.engine.work.heartbeat import BEATS_PER_LEASE, Heartbeat, StoreClock
from forager.engine.work.settle import InFlight, Listeners, OnSettled, settle_apart, settle_together
from forager.engine.work.stats import WorkStats

log = structlog.get_logger("forager.engine")

ENOUGH = 64
"""Ended attempts that are settled at once, without waiting for others."""
MOST_LANES = 1_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    name: str = "worker"
    capacity: int = 1_000
    """Attempts in flight at once."""
    patience: float = PATIENCE
    """Seconds; the patience of tasks whose step declares none."""
    random: Random = field(default_factory=Random)
    """The source of jitter."""


DEFAULT_OPTIONS = WorkerOptions()


class Worker:
    def __init__(
        self,
        ledger: LedgerQueue,
        pipelines: Sequence[Pipeline],
        resources: Resources,
        clock: Clock,
        *,
        rules: LaneRules | None = None,
        options: WorkerOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.stats = WorkStats(frozenset[str]().union(*(p.reasons for p in pipelines)))
        self._ledger = ledger
        self._clock = StoreClock(clock)
        self._heart = Heartbeat(ledger, self._clock, options.name)
        self._capacity = options.capacity
        random = options.random.random
        self._steps = StepTable(pipelines)
        self._lanes = OwnedLanes(
            ledger,
            rules or DeclaredLanes(pipelines),
            self._clock,
            self._steps,
            most=min(MOST_LANES, options.capacity),
            random=random,
            tally=self.stats.lanes,
        )
        self.offload = resources.offload
        """The readers of this process."""
        self._wake = asyncio.Event()
        self.claims = Claims(ledger, self._lanes, self._clock, self._wake.set)
        """Tasks that were named to this worker, to be claimed by number."""
        self._flight = InFlight(
            self._lanes,
            self._steps,
            Surroundings(resources, lambda: self.alive, self._lane_of, self._wake.set, self._lanes.use),
            self._clock,
            self.stats,
            mark=self._mark_step,
            random=random,
            patience=options.patience,
        )
        self._listeners = Listeners()
        self._limited: set[int] = set()
        """Lanes with more tasks than the limits of their jobs allowed: leased again after the next settlement."""
        self._stopping = self._out_of_grace = False
        self._unsure = False
        """True if the store may have leased us tasks in an answer that was lost."""
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

    def bind(self, app_steps: Mapping[str, StepFunction]) -> None:
        """Set the functions of app steps, by kind of task, before the worker runs."""
        self._steps.bind(app_steps)

    def when_settled(self, report: OnSettled, *, pipeline: str | None = None) -> None:
        """Register a callback that is called with every group of attempts right after it was settled; with `pipeline`,
        with its attempts only."""
        self._listeners.add(report, None if pipeline is None else self._steps.kinds_of(pipeline))

    def batches(self) -> BatchWork:
        """Return this worker's parts for work in batches, in place of `run`."""
        return BatchWork(
            self._ledger, self._heart, self._lanes, self._flight, self._clock, self.stats, self._listeners.report
        )

    @property
    def in_flight(self) -> int:
        return len(self._flight)

    @property
    def is_busy(self) -> bool:
        """Return whether an attempt is in flight or not settled, or a lane with work only waits until it may send."""
        return bool(self._flight.running or self._flight.finished or self._lanes.wait_to_send())

    def pipeline_of(self, kind: str) -> str:
        """Return the pipeline that has a step for tasks of this kind."""
        return self._steps.pipeline_of(kind)

    @property
    def lanes_owned(self) -> int:
        return sum(1 for _ in self._lanes)

    def breakers(self) -> Mapping[str, str]:
        """Return the lanes of this process whose breaker is not closed, with its state."""
        return self._lanes.breakers()

    @property
    def session(self) -> Session | None:
        """Return the session while it is alive. The lanes of this process's sinks also belong to it."""
        return self._heart.session if self.alive else None

    @property
    def alive(self) -> bool:
        """Return whether the session is alive. Health reports an error if not."""
        return self._heart.alive

    def lane_state(self, name: str) -> Mapping[str, Any] | None:
        """Return a lane's current state; None if this worker does not own it."""
        return self._lanes.state_of(name)

    async def _work(self, session: Session, listener: asyncio.Task[None], *, until_idle: bool) -> None:
        failures = 0
        while not (self._stopping and not self._flight.running and not self._flight.finished):
            if listener.done():
                listener.result()  # new work is no longer announced: better to fail than to be idle for ever
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
                await self._clock.sleep(back_off(failures))
                failures += 1
                continue
            await self._until_something_changes(POLL if until_idle else math.inf)
        try:
            await self._lanes.give_all(session)
            await self._ledger.end(session)
        except StoreError as error:
            log.warning("session_not_ended", error=error.message)

    async def _settle_and_refill(self, session: Session) -> None:
        """Settle finished tasks and lease new ones, in one transaction. It never waits for lanes still to be taken."""
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
            self._wake.set()  # others wait for the slot

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
            self._listeners.report(settled)
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
            elif want.lane in got and want.lane in batch.limited:  # maybe limited by a batch size: lease again at once
                lane.hungry = True
                self._wake.set()
            elif (due := batch.next_due[want.lane]) is not None:
                lane.due = now + max(HORIZON / 4, due / 1000 - self._clock.now().timestamp())
        if batch.suspects:
            self._suspects.expect(now)

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
        poll = rarely if self._ledger.announces_all else POLL
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
            log.info("suspects_retried", together=len(leases))
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
        log.warning("session_expired", session=session.id)
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

        Nothing is leased before this has succeeded: a lease that the worker has not seen would be held as long as
        its session lives.
        """
        held, known = await self._ledger.held(session), self._flight.known()
        unheard = [lease for lease in held if (lease.task_id, lease.claim) not in known]
        self._flight.give_back(unheard, "The lease's confirmation was lost.")
        self._unsure = False

    def _report_trouble(self, error: StoreError) -> None:
        """Log the trouble. Leasing stops until the store answers again."""
        if self.stats.trouble is None:
            log.error("store_unavailable", error=error.message)
        self.stats.trouble = error.message


# Tasks that a worker claims by number, because a message named them (`Want.tasks`).
#
# They wait here until their lane may start them. Each is reported as over exactly once: when its attempt was settled,
# or when it could not be claimed, because it has ended, another session runs it, or any lease may take it. The message
# can then be forgotten: the ledger has the task, whatever happens next to it.


PLAIN_EVERY = 1.0
"""A lane with named tasks is leased without them this often, so that retries get their turn, however many there are."""


class Claims:
    """The named tasks of one worker. Use it on the worker's event loop."""

    def __init__(self, ledger: LedgerQueue, lanes: OwnedLanes, clock: Clock, wake: Callable[[], None]) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._clock = clock
        self._wake = wake
        self._waiting: dict[str, deque[int]] = {}
        """Tasks by the name of their lane, in the order of their messages."""
        self._running: set[int] = set()
        self._plain_at: dict[str, float] = {}
        """Time when a lane was last leased without named tasks."""
        self.in_use = False
        """True if any task was ever named."""
        self._tell_over: Callable[[Collection[int]], None] = lambda _: None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting(self) -> int:
        """Return how many tasks have not been claimed yet."""
        return sum(map(len, self._waiting.values()))

    def when_over(self, tell: Callable[[Collection[int]], None]) -> None:
        """Set the function that receives finished tasks."""
        self._tell_over = tell

    def add(self, lane: str, tasks: Iterable[int]) -> None:
        """Claim these tasks of a lane as soon as its limits allow."""
        self.in_use = True
        if lane not in self._waiting:
            self._waiting[lane] = deque()
            self._plain_at[lane] = self._clock.monotonic()
        self._waiting[lane].extend(tasks)
        self._wake()

    def forget(self, tasks: Collection[int]) -> set[int]:
        """Claim none of these tasks that still wait: their messages go to another worker. Returns which these are."""
        gone: set[int] = set()
        for lane, waiting in list(self._waiting.items()):
            gone.update(task for task in waiting if task in tasks)
            self._waiting[lane] = deque(task for task in waiting if task not in tasks)
            if not self._waiting[lane]:
                del self._waiting[lane]
        return gone

    async def open_lanes(self, session: Session) -> None:
        """Take the lanes of the waiting tasks. If another session owns one, or it is paused, its tasks are left to any
        lease."""
        for name, waiting in list(self._waiting.items()):
            lane = await self._lanes.take_named(session, name)
            if not isinstance(lane, Away):
                lane.hungry = True
                continue
            tasks = list(waiting)
            await self._ledger.end_offers(tasks)
            self.forget(set(tasks))
            self._tell_over(tasks)

    def name_tasks(self, wants: Sequence[Want]) -> list[Want]:
        """Add waiting tasks to what is about to be leased. Pass the result to `put_back` or to `claimed`."""
        now = self._clock.monotonic()
        return [self._named(want, now) for want in wants]

    def _named(self, want: Want, now: float) -> Want:
        name = self._lanes[want.lane].name
        waiting = self._waiting.get(name)
        if waiting is None:
            return want
        if now - self._plain_at.get(name, -math.inf) >= PLAIN_EVERY:
            self._plain_at[name] = now
            return want
        tasks = [waiting.popleft() for _ in range(min(len(waiting), want.most))]
        if not waiting:
            del self._waiting[name]
        return replace(want, tasks=tasks)

    def put_back(self, wants: Sequence[Want]) -> None:
        """Let the tasks of a lease wait again that has failed."""
        for want in wants:
            if want.tasks:
                self._waiting.setdefault(self._lanes[want.lane].name, deque()).extendleft(reversed(want.tasks))

    def claimed(self, wants: Sequence[Want], batch: LeaseBatch) -> None:
        """Note which tasks were leased; the others are over."""
        asked = {task for want in wants for task in want.tasks}
        if asked:
            leased = asked.intersection(lease.task_id for lease in batch.leases)
            self._running |= leased
            self._tell_over(asked - leased)
        for name in self._waiting:
            self._lanes.make_hungry_by_name(name)  # also if it had nothing else to lease

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Note that these attempts have ended; also if the settlement was refused, because the claim was lost."""
        if self._running:
            self._end(self._running.intersection(s.lease.task_id for s in settlements))

    def lose(self) -> None:
        """Note that the session is lost, and with it every claim: the ledger rescues the tasks."""
        self._end(set(self._running))

    def _end(self, tasks: set[int]) -> None:
        if tasks:
            self._running -= tasks
            self._tell_over(tasks)
