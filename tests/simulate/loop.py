"""The event loop of a simulated process: one thread, no sockets, the time of the world, and an order from the seed.

Time moves only when nothing is ready, to the next timer. Of several ready calls, the seed chooses the next one.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any

from tests.simulate.world import MOST_STEPS, ProcessDied, Stuck, World

STEP = 0.00002
"""Simulated seconds that a step takes, so that a loop that never waits does not stop time."""


class SimulatedFuture(asyncio.Future[Any]):
    """Its hash is a number of the loop, not an address: sets of futures have the same order in every process."""

    def __init__(self, *, loop: "SimulatedLoop") -> None:
        super().__init__(loop=loop)
        self._number = loop.next_number()

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[Any]):
    """Like `SimulatedFuture`."""

    def __init__(self, work: Any, *, loop: "SimulatedLoop", **more: Any) -> None:
        self._number = loop.next_number()
        super().__init__(work, loop=loop, **more)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.BaseEventLoop):
    _ready: Any
    _scheduled: Any

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._dice = world.stream(f"order of life {world.life}")
        self._work = world.stream(f"threads of life {world.life}")
        self._numbers = 0
        self._clock_resolution = 1e-9
        self.stop_asked: Callable[[], object] | None = None
        """Called for a SIGTERM."""
        self.set_task_factory(lambda loop, work, **more: SimulatedTask(work, loop=self, **more))

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def time(self) -> float:
        return self._world.now

    def create_future(self) -> Any:
        return SimulatedFuture(loop=self)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Call the function on this thread, a moment later."""
        future = self.create_future()

        def call() -> None:
            if future.done():
                return
            try:
                result = func(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._work.uniform(0.0001, 0.004), call)
        return future

    def run_inline(self, work: Callable[[], Any]) -> Any:
        return self.run_in_executor(None, work)

    def _write_to_self(self) -> None:
        return

    def _process_events(self, event_list: Any) -> None:
        return

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    def _run_once(self) -> None:
        world, ready, timers = self._world, self._ready, self._scheduled
        if not ready:
            while timers and timers[0]._cancelled:
                heapq.heappop(timers)._scheduled = False
            if not timers:
                raise Stuck("nothing is ready and nothing waits for a time")
            world.now = max(world.now, timers[0]._when)
        while timers and timers[0]._when <= world.now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        if not ready:
            return
        place = 0
        if len(ready) > 1 and world.plan.shuffle and self._dice.random() < world.plan.shuffle:
            place = self._dice.randrange(len(ready))
        ready.rotate(-place)
        handle = ready.popleft()
        ready.rotate(place)
        if handle._cancelled:
            return
        world.steps += 1
        world.now += STEP
        world.mix(place)
        if world.steps > MOST_STEPS:
            raise Stuck(f"more than {MOST_STEPS} steps: a loop never waits")
        self._fault()
        handle._run()
        if world.is_dead:
            raise ProcessDied

    def _fault(self) -> None:
        fault = self._world.fault("step")
        if fault is None:
            return
        if fault.kind == "death":
            self._world.die()
        elif fault.kind == "stall":
            self._world.now += fault.seconds
        elif fault.kind == "sleep":  # the machine sleeps: the wall clock goes on, timers do not
            self._world.wall_ahead += fault.seconds
        elif fault.kind == "stop" and self.stop_asked is not None:
            self.stop_asked()
