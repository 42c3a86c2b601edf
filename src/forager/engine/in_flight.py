"""A worker's attempts: those in flight, and those that have ended and are not settled yet.

Each attempt is an asyncio task. However it ends, its lease appears in `finished` exactly once: it is never forgotten,
and never settled twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from forager.core.clock import Clock
from forager.core.ledger import Lease, Settlement
from forager.core.pipeline import Step
from forager.core.reasons import Reason
from forager.core.states import TaskState
from forager.engine.attempt import attempt, capped, given_up
from forager.engine.attempt_log import time_attempt
from forager.engine.lane import LaneRun
from forager.engine.lane_fetch import LaneFetch, Surroundings
from forager.engine.lane_ownership import OwnedLanes
from forager.engine.resume_cache import Memo
from forager.engine.stats import WorkStats
from forager.engine.step_table import StepTable
from forager.engine.suspects import WatchedFetch

MOST_IN_VAIN = 20
"""Attempts in a row without a connection to the same lane, after which a job is paused …"""
PROBES_IN_VAIN = 3
"""… or, where a breaker holds attempts back, probes after those that opened it."""


@dataclass(slots=True)
class _Streak:
    lane: int
    count: int = 0


class Outages:
    """Pauses a job whose attempts all end without a connection (a name that does not resolve, a refused connection):
    every other task would end alike, after all its retries. See decision 0051.

    A step that does not wait for its lane (`when_open="fail"`) is left alone: its caller waits for an end.
    """

    def __init__(self) -> None:
        self._streaks: dict[int, _Streak] = {}
        """Attempts in a row without a connection, by job."""

    def seen(self, settlement: Settlement, step: Step | None, lane: LaneRun) -> None:
        """Note how an attempt ended, and let its settlement pause the job if that has gone on for long enough."""
        job = settlement.lease.job_id
        if settlement.reason != Reason.UNREACHABLE:
            if self._streaks and (settlement.burned or settlement.state is TaskState.COMPLETED):
                self._streaks.pop(job, None)
            return
        if step is None or step.when_open == "fail" or settlement.state not in (TaskState.WAITING, TaskState.FAILED):
            return
        streak = self._streaks.get(job)
        if streak is None or streak.lane != lane.id:
            streak = self._streaks[job] = _Streak(lane.id)
        streak.count += 1
        breaker = lane.policy.breaker
        if streak.count < (MOST_IN_VAIN if breaker is None else min(MOST_IN_VAIN, breaker.failures + PROBES_IN_VAIN)):
            return
        del self._streaks[job]
        settlement.spares = "succeeded" if lane.policy.site else "standing"
        settlement.halt = (
            f"{settlement.error or 'no connection'} The last {streak.count} attempts of the job ended like this, so it"
            " is paused. Check the address and the network, then resume the job."
        )
        if settlement.state is TaskState.FAILED:  # the task is tried again when the job is resumed
            settlement.state, settlement.burned, settlement.tried = TaskState.READY, False, None


class InFlight:
    def __init__(
        self,
        lanes: OwnedLanes,
        steps: StepTable,
        around: Surroundings,
        clock: Clock,
        stats: WorkStats,
        *,
        mark: Callable[[Lease, bool], Awaitable[bool]],
        random: Callable[[], float],
        patience: float,
    ) -> None:
        """`mark` records in the ledger what the step of a suspect that runs alone does next (`Ledger.mark_step`)."""
        self.finished: list[Settlement] = []
        self.running: dict[asyncio.Task[None], Lease] = {}
        self._lanes = lanes
        self._steps = steps
        self._around = around
        self._clock = clock
        self._stats = stats
        self._mark = mark
        self._random = random
        self._patience = patience
        self._memo = Memo()
        self._outages = Outages()

    def __len__(self) -> int:
        return len(self.running)

    def start(self, leases: Sequence[Lease]) -> None:
        """Begin an attempt for each lease. One that its lane cannot start now is given back."""
        shared: set[int] = set()
        for lease in leases:
            lane = self._lanes[lease.lane]
            pipeline = self._steps.pipeline_of(lease.kind)
            if self._lanes.use(lane, pipeline):
                shared.add(lane.id)
            if lane.id in shared and lane.in_flight >= lane.policy.concurrency:  # less than when it was leased
                self.finished.append(given_up(lease, why="The lane has as many tasks in flight as it may."))
            elif not lane.affords(lease.price):
                self.finished.append(capped(lease, self._steps.get(lease.kind), lane))
            else:
                self._begin(lease, lane, pipeline)

    def give_back(self, leases: Sequence[Lease], why: str) -> None:
        """Return these leases to the queue without starting them."""
        self.finished.extend(given_up(lease, why=why) for lease in leases)

    def take_finished(self) -> list[Settlement]:
        finished, self.finished = self.finished, []
        return finished

    def known(self) -> set[tuple[int, int]]:
        """Return (task, claim) of everything that is in flight or not settled yet."""
        known = {(lease.task_id, lease.claim) for lease in self.running.values()}
        return known | {(settlement.lease.task_id, settlement.lease.claim) for settlement in self.finished}

    def cancel(self) -> None:
        """Cancel what is in flight. It returns to the queue without burning an attempt."""
        for task in list(self.running):
            task.cancel()

    async def abandon(self) -> None:
        """Cancel and forget everything: the session is lost, so none of it may be settled."""
        running, self.running = list(self.running), {}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self.finished.clear()

    def _begin(self, lease: Lease, lane: LaneRun, pipeline: str) -> None:
        is_planned = lane.start(lease.price)
        self._stats.started += 1
        task = asyncio.create_task(self._attempt(lease, lane, pipeline, is_planned))
        self.running[task] = lease
        task.add_done_callback(self._never_began)

    def _never_began(self, task: asyncio.Task[None]) -> None:
        """Give back the lease of a task that was cancelled before it ran: none of its own code runs in that case."""
        lease = self.running.pop(task, None)
        if lease is not None:
            self._lanes[lease.lane].end(lease.price, 0)
            self.finished.append(given_up(lease))
            self._around.wake()

    async def _attempt(self, lease: Lease, lane: LaneRun, pipeline: str, is_planned: bool) -> None:
        began = self._clock.monotonic()
        step = self._steps.get(lease.kind)
        fetch = (partial(WatchedFetch, partial(self._mark, lease)) if lease.alone else LaneFetch)(
            self._around,
            lane,
            is_planned,
            when_open=step.when_open if step else "snooze",
            progress=self._memo.take(lease.task_id),
            job=lease.job_id,
            pipeline=pipeline,
        )
        try:
            settlement = await attempt(lease, step, fetch, lane, self._clock, self._random, self._patience)
        except asyncio.CancelledError:
            settlement = given_up(lease, cost=lease.price if fetch.sent else 0)
        self._outages.seen(settlement, step, lane)
        fetch.give_place_back()
        if not settlement.burned and (settlement.state is TaskState.WAITING or settlement.reason == Reason.RATE):
            self._memo.keep(lease.task_id, fetch.progress)
        if fetch.proxy is not None:
            settlement.facts = {**(settlement.facts or {}), "proxy": fetch.proxy}
        lane.end(lease.price, settlement.cost)
        self._stats.took.append(time_attempt(settlement, step, self._clock, began))
        me = asyncio.current_task()
        if me in self.running:
            del self.running[me]
            self.finished.append(settlement)
        self._around.wake()
