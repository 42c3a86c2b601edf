"""The embedded runner: runs all loops of one process on its event loop.

These are the worker, one delivery per sink, and the periodic loops (sweep, schedules, rules, proxies). A loop that
fails is logged and restarted, so that a defect in one never stops the others.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager

import structlog

from forager.core.clock import Clock
from forager.engine.deliver import Deliveries
from forager.engine.work.batch import BatchWork
from forager.engine.work.worker import Worker

log = structlog.get_logger("forager.runners")

Loop = Callable[[], Awaitable[None]]
"""Runs until it is cancelled."""

RESTART_AFTER = 1.0
DELIVERY_GRACE = 5.0
"""Seconds that a sink has to accept its current batch when the process stops."""


class EmbeddedRunner:
    """The loops of one process."""

    def __init__(
        self,
        worker: Worker,
        deliveries: Deliveries,
        loops: Mapping[str, Loop],
        *,
        clock: Clock,
        grace: float,
    ) -> None:
        """`grace`: seconds that in-flight tasks have to finish when the process stops."""
        self.is_stopping = False
        """True if the engine is draining: in-flight tasks finish and no new ones are leased."""
        self._worker = worker
        self._deliveries = deliveries
        self._loops = loops
        self._clock = clock
        self._grace = grace

    @asynccontextmanager
    async def running(
        self, *, without: Collection[str] = (), only: Collection[str] | None = None, deliver: bool = True
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Run every loop, except those named, or `only` those named, while the block runs. Yields the worker's task.

        At the end, each sink finishes its current batch; then in-flight tasks finish or return to the queue without
        burning an attempt. Afterwards it can be entered again. Without `deliver`, no sink is delivered.
        """
        self._worker.reopen()
        names = [name for name in self._loops if name not in without and (only is None or name in only)]
        beside = [asyncio.create_task(self._keep_up(name, self._loops[name])) for name in names]
        if deliver:
            self._deliveries.start()
        working = asyncio.create_task(self._worker.run())
        try:
            yield working
        finally:
            self.is_stopping = True
            for task in beside:
                task.cancel()
            try:
                # Before the worker ends its session: the lanes of the sinks end with it, and no cursor could move.
                await self._deliveries.stop(min(DELIVERY_GRACE, self._grace))
                await self._worker.drain(self._grace)
                await working
                await asyncio.gather(*beside, return_exceptions=True)
            finally:
                self.is_stopping = False

    @asynccontextmanager
    async def beside(self, names: Collection[str]) -> AsyncIterator[None]:
        """Run only these loops while the block runs: neither the worker nor any delivery."""
        tasks = [asyncio.create_task(self._keep_up(name, self._loops[name])) for name in names]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def in_batches(self, *, without: Collection[str] = ()) -> AsyncIterator[BatchWork]:
        """Run every loop, except those named, while the block runs. Work happens only in the batches that the block
        requests. At the end, each sink finishes its current batch, and unsettled tasks return to the queue."""
        batches = self._worker.batches()
        async with batches.running(), self.beside([name for name in self._loops if name not in without]):
            self._deliveries.start()
            try:
                yield batches
            finally:
                await self._deliveries.stop(min(DELIVERY_GRACE, self._grace))

    async def _keep_up(self, name: str, loop: Loop) -> None:
        while True:
            try:
                await loop()
            except Exception:
                log.exception("loop_failed", loop=name)
                await self._clock.sleep(RESTART_AFTER)
            else:
                return
