"""The whole engine on SQLite in simulated time: worker, sweep, schedules, rechecks and sinks, a fortnight in seconds.

The clock moves only when everything stands still: nothing is ready on the loop, no command is with the writer thread,
no call with a thread pool. Then it jumps to the next moment for which anything waits. Real time never matters, so that
two runs of the same simulation do the same.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from forager.core.http import Fetch
from forager.core.ledger import NewJob
from forager.core.pipeline import Pipeline
from forager.core.schedules import Schedule
from forager.core.sink import Sink
from forager.engine.deliver import DeliveryTiming, SinkDelivery
from forager.engine.recheck import Rechecker
from forager.engine.schedule import Scheduler, next_firing
from forager.engine.upkeep import sweep_forever
from tests.support.deliveries import sink_table
from tests.support.engine import EngineRig, make_worker, open_sqlite
from tests.support.stepped_clock import SteppedClock

GRACE = 60.0
STUCK = 30.0
"""Real seconds after which a thread that does not answer is a fault of the test."""
A_MOMENT = 0.002


class SimulatedClock(SteppedClock):
    """`run_for` lets time pass, from one moment that anything waits for to the next, as soon as all is quiet."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        super().__init__(start)
        self.jumps = 0
        self._threads = 0
        self._busy: list[Callable[[], object]] = [lambda: self._threads]

    def wait_for(self, busy: Callable[[], object]) -> None:
        """Time also stands still while this is true."""
        self._busy.append(busy)

    async def run_for(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        with self.counting_threads():
            await self._quiet()
            while self.fire_next(until):
                self.jumps += 1
                await self._quiet()

    async def _quiet(self) -> None:
        """Until nothing can happen without time passing."""
        loop = asyncio.get_running_loop()
        ready: Any = loop._ready  # type: ignore[attr-defined]  # what the loop would do next; it has no public name
        deadline = loop.time() + STUCK
        while True:
            await asyncio.sleep(0)
            if ready:
                continue
            if not any(busy() for busy in self._busy):
                return
            assert loop.time() < deadline, "a thread has not answered"
            await _heard(loop)

    @contextlib.contextmanager
    def counting_threads(self) -> Iterator[None]:
        """Time stands still while a call is with a thread that began inside. Around a whole test it also counts calls
        that a worker begins between two `run_for`."""
        loop = asyncio.get_running_loop()
        if "run_in_executor" in vars(loop):  # counted already, further outside
            yield
            return
        run = loop.run_in_executor

        def counted(*given: Any) -> Any:
            future = run(*given)
            self._threads += 1
            future.add_done_callback(self._answered)
            return future

        loop.run_in_executor = counted  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            del loop.run_in_executor

    def _answered(self, _: object) -> None:
        self._threads -= 1


async def _heard(loop: Any) -> None:
    """Wait until a socket or a thread wakes the loop, or for a moment, in case a thread does so before it has quite
    ended. Polling instead would slow the threads down."""
    woken, process = loop.create_future(), loop._process_events

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def heard(events: Any) -> None:
        process(events)
        if events:
            wake()

    loop._process_events = heard  # it has no public name either
    moment = loop.call_later(A_MOMENT, wake)
    try:
        await woken
    finally:
        moment.cancel()
        del loop._process_events


@dataclass
class Simulation:
    """A store with the engine on it. The jobs of schedules are made by their pipeline's plan."""

    rig: EngineRig
    clock: SimulatedClock
    fetch: Fetch
    options: Mapping[str, Any] = field(default_factory=dict)
    """The logs of all workers."""
    fired: list[datetime] = field(default_factory=list)
    """Times at which schedules created their jobs."""
    loops: list[asyncio.Task[None]] = field(default_factory=list)
    """The sweep, the schedules, the rechecks, the sinks."""
    rechecker: Rechecker | None = None

    async def run_for(self, *, days: float = 0.0, seconds: float = 0.0) -> None:
        await self.clock.run_for(days * 86_400 + seconds)

    def start_worker(self) -> None:
        self.worker = make_worker(self.rig.ledger, self.rig.pipelines, self.fetch, self.clock, **self.options)
        if self.rechecker:
            self.worker.when_settled(self.rechecker.note_settled)
        self._working = asyncio.create_task(self.worker.run())

    def kill_worker(self) -> None:
        """Nothing of it is settled or given back: its session ends with its lease."""
        self._working.cancel()

    async def stop(self) -> None:
        for loop in self.loops:
            loop.cancel()
        draining = asyncio.create_task(self.worker.drain(GRACE))
        await self.clock.run_for(2 * GRACE)
        async with asyncio.timeout(STUCK):
            await asyncio.gather(draining, self._working)

    async def put_schedule(self, schedule: Schedule) -> None:
        now = round(self.clock.now().timestamp() * 1000)
        await self.rig.schedules.put(replace(schedule, next_at=next_firing(schedule, now)))

    async def create_job(self, schedule: Schedule, key: str) -> UUID:
        pipeline = next(each for each in self.rig.pipelines if each.name == schedule.pipeline)
        params = pipeline.params.model_validate(schedule.params)
        self.fired.append(self.clock.now())
        new = NewJob(schedule.pipeline, schedule.params, pipeline.limits(params), key, schedule=schedule.name)
        job: UUID = (await self.rig.ledger.submit(new, pipeline.plan(params))).job
        return job


@contextlib.asynccontextmanager
async def simulation(
    folder: Path,
    pipelines: Sequence[Pipeline],
    fetch: Fetch,
    *,
    clock: SimulatedClock | None = None,
    sinks: Sequence[Sink] = (),
    lease: float = 3_600.0,
    every: float = 600.0,
    **options: Any,
) -> AsyncIterator[Simulation]:
    """The engine runs while the block does; then it is drained and the store audited.

    `every`: seconds between two looks of the sweep and of the sinks, which poll. The worker, the schedules and the
    rechecks wait for their moments.
    """
    clock = clock or SimulatedClock()
    with clock.counting_threads():  # from the first call on: one that began before `run_for` would not hold time up
        rig = await open_sqlite(folder, pipelines, clock=clock, lease=lease)
        clock.wait_for(lambda: rig.ledger._writer.pending)
        rig.ledger._writer.db.execute("PRAGMA synchronous=OFF")  # time that no disk need survive
        rechecker = Rechecker(rig.ledger, pipelines, clock, look_every=every)
        made = Simulation(rig, clock, fetch, options, rechecker=rechecker)
        scheduler = Scheduler(rig.schedules, made.create_job, rig.ledger.now, clock, longest_nap=every)
        made.loops += [
            asyncio.create_task(sweep_forever(rig.ledger, clock, every)),
            asyncio.create_task(scheduler.run()),
            asyncio.create_task(rechecker.run()),
        ]
        made.start_worker()
        for sink in sinks:
            pace = DeliveryTiming(look_every=every)
            delivery = SinkDelivery(rig.ledger, sink_table(rig.ledger), sink, clock, lambda: made.worker.session, pace)
            made.loops.append(asyncio.create_task(delivery.run()))
        try:
            yield made
        finally:
            await made.stop()
        rig.check()
        await rig.close()
