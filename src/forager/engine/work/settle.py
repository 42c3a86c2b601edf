"""Settles a group of outcomes, and one by one after the store has refused the group. An outcome that is refused alone
becomes a dead letter, so that it does not block the others for ever.

Never used while the store is unavailable or full: then every outcome waits until it is back.
"""

import asyncio
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from forager.core.clock import Clock
from forager.core.errors import Evidence, StoreFull, StoreUnavailable
from forager.core.ledger import Lease, LeaseBatch, LedgerQueue, Session, Settlement, Want
from forager.core.pipeline import Step, StepTable
from forager.core.recording import RecordedTask
from forager.core.states import ErrorType, Reason, TaskState
from forager.engine.lanes.fetch import LaneFetch, Memo, Surroundings
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.ownership import OwnedLanes
from forager.engine.work.attempt import WatchedFetch, attempt, capped, given_up, step_times, time_attempt
from forager.engine.work.stats import WorkStats

log = structlog.get_logger("forager.engine")

OnSettled = Callable[[Sequence[Settlement]], object]


class Listeners:
    """Callbacks for attempts that were settled, dispatched by the kind of their tasks."""

    def __init__(self) -> None:
        self._of_all: list[OnSettled] = []
        self._of_kind: defaultdict[str, list[OnSettled]] = defaultdict(list)

    def add(self, report: OnSettled, kinds: Iterable[str] | None) -> None:
        """Call `report` with every group that is settled; with `kinds`, with the attempts of these kinds only."""
        if kinds is None:
            self._of_all.append(report)
            return
        for kind in kinds:
            self._of_kind[kind].append(report)

    def report(self, settled: Sequence[Settlement]) -> None:
        for report in self._of_all:
            report(settled)
        groups: defaultdict[OnSettled, list[Settlement]] = defaultdict(list)
        for each in settled:
            for report in self._of_kind.get(each.lease.kind, ()):
                groups[report].append(each)
        for report, group in groups.items():
            report(group)


async def settle_together(
    ledger: LedgerQueue, session: Session, left: list[Settlement], wants: Sequence[Want] = ()
) -> LeaseBatch | None:
    """Settle a group and lease what is wanted, in one transaction.

    Returns None, with nothing settled or leased, if the group was refused: then call `settle_apart`. Raises if the
    store is full or does not answer, or if there was nothing to settle.
    """
    try:
        return await ledger.settle_and_lease(session, list(left), wants)
    except (StoreFull, StoreUnavailable):
        raise
    except Exception:
        if not left:
            raise
        log.exception("settle_group_failed")
        return None


async def settle_apart(ledger: LedgerQueue, session: Session, left: list[Settlement]) -> list[int]:
    """Settle one by one, and remove from `left` what is settled. Returns the tasks whose claim was lost."""
    fenced: list[int] = []
    while left:
        try:
            batch = await ledger.settle_and_lease(session, left[:1], [])
        except (StoreFull, StoreUnavailable):
            raise
        except Exception as error:
            if left[0].state is TaskState.FAILED and left[0].evidence is None:
                raise  # even a plain failure is refused: the outcome is not the cause
            left[0] = _without_findings(left[0], error)
            continue
        fenced.extend(batch.fenced)
        del left[0]
    return fenced


def _without_findings(refused: Settlement, error: Exception) -> Settlement:
    """Return a failed settlement with the reason, and with the trace as evidence unless evidence was the cause."""
    trace = None
    if refused.state is not TaskState.FAILED:
        trace = Evidence("".join(traceback.format_exception(error)).encode())
    message = f"The outcome could not be stored: {type(error).__name__}: {error}"
    return Settlement(
        refused.lease,
        TaskState.FAILED,
        cost=refused.cost,
        guessed=refused.guessed,
        error=message,
        reason=Reason.UNSTORABLE,
        error_type=ErrorType.STORAGE,
        evidence=trace,
    )


# A worker's attempts: those in flight, and those that have ended and are not settled yet.
#
# Each attempt is an asyncio task. However it ends, its lease appears in `finished` exactly once: it is never forgotten,
# and never settled twice.


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
    every other task would end the same way, after all its retries. See decision 0051.

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
                self.finished.append(given_up(lease, why="The lane has reached its limit of tasks in flight."))
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

    def _taped(self, lease: Lease, pipeline: str) -> RecordedTask | None:
        """Return the name of a task whose answers are recorded or replayed; None for any other."""
        parts = self._around.resources
        if parts.player is None and (parts.recorder is None or not parts.recorder.takes(pipeline)):
            return None
        return RecordedTask(lease.job_id, lease.kind, lease.key, lease.claim)

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
            task=self._taped(lease, pipeline),
        )
        if (tracer := self._around.resources.tracer) is not None:
            fetch.trace = tracer.begin(lease, pipeline)
        try:
            settlement = await attempt(lease, step, fetch, lane, self._clock, self._random, self._patience)
        except asyncio.CancelledError:
            settlement = given_up(lease, cost=lease.price if fetch.sent else 0)
        if fetch.trace is not None:
            fetch.trace.ended = fetch.trace.now()
        self._outages.seen(settlement, step, lane)
        fetch.give_place_back()
        if not settlement.burned and (settlement.state is TaskState.WAITING or settlement.reason == Reason.RATE):
            self._memo.keep(lease.task_id, fetch.progress)
        if fetch.proxy is not None:
            settlement.facts = {**(settlement.facts or {}), "proxy": fetch.proxy}
        lane.end(lease.price, settlement.cost)
        took = time_attempt(settlement, step, self._clock, began)
        self._stats.took.append(took)
        if fetch.seconds_fetching:
            settlement.facts = {**(settlement.facts or {}), **step_times(fetch, took)}
        me = asyncio.current_task()
        if me in self.running:
            del self.running[me]
            self.finished.append(settlement)
        self._around.wake()
