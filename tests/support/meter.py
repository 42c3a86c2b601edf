"""Measures what a piece of work does to its process: the most memory it adds, the longest time it blocks the loop."""

import asyncio
import gc
import time
from types import TracebackType

import psutil

TICK = 0.002


class Meter:
    """`async with Meter() as meter:`; then `meter.stall` in seconds and `meter.rise` in bytes.

    A stall counts as far as this process computed meanwhile: while it waited for a processor, others had that.
    """

    async def __aenter__(self) -> "Meter":
        gc.collect()
        self.stall = 0.0
        self._process = psutil.Process()
        self._base = self._peak = self._process.memory_info().rss
        self._probe = asyncio.create_task(self._watch())
        await asyncio.sleep(TICK)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.sleep(TICK)  # a stall that is still going on is seen by the next tick
        self._probe.cancel()
        self._peak = max(self._peak, self._process.memory_info().rss)

    @property
    def rise(self) -> int:
        return self._peak - self._base

    async def _watch(self) -> None:
        while True:
            before, computed = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            away = time.perf_counter() - before - TICK
            self.stall = max(self.stall, min(away, time.process_time() - computed))
            self._peak = max(self._peak, self._process.memory_info().rss)
