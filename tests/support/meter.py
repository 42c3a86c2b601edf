"""Measures what a piece of work does to its process: the most memory it adds, the longest time it blocks the loop."""

import asyncio
import gc
import threading
import time
from types import TracebackType

import psutil

TICK = 0.002


class Meter:
    """`async with Meter() as meter:`; then `meter.stall` in seconds and `meter.rise` in bytes.

    What other programs took of the processor is not the loop's stall. So it counts the time that this process computed,
    or, if that is more, the time that a thread beside the loop was not late, too: then the loop was blocked in a call.
    """

    async def __aenter__(self) -> "Meter":
        gc.collect()
        self.stall = 0.0
        self._late = 0.0
        """Seconds by which the thread was late so far, all together."""
        self._is_over = threading.Event()
        threading.Thread(target=self._tick, daemon=True).start()
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
        self._is_over.set()
        self._peak = max(self._peak, self._process.memory_info().rss)

    @property
    def rise(self) -> int:
        return self._peak - self._base

    async def _watch(self) -> None:
        while True:
            before, computed, late = time.perf_counter(), time.process_time(), self._late
            await asyncio.sleep(TICK)
            away = time.perf_counter() - before - TICK
            self.stall = max(self.stall, min(away, time.process_time() - computed), away - (self._late - late))
            self._peak = max(self._peak, self._process.memory_info().rss)

    def _tick(self) -> None:
        before = time.perf_counter()
        while not self._is_over.wait(TICK):
            now = time.perf_counter()
            self._late += now - before - TICK
            before = now
