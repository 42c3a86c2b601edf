"""A worker of a benchmark in a process of its own: it prints the number of tasks that it has ended, until it is
stopped."""

import asyncio
import contextlib
import signal
import time

from forager.core.clock import SystemClock
from forager.core.http import Fetch
from forager.core.pipeline import Pipeline
from forager.engine.lanes.fetch import Resources
from forager.engine.work.worker import Worker, WorkerOptions
from forager.ledger.catalog import Catalog

TELL_EVERY = 0.25


async def work(pipeline: Pipeline, upstream: Fetch, url: str, name: str, capacity: int = 1_000) -> None:
    """Work on the PostgreSQL ledger at `url` until SIGTERM. Prints a line four times a second: the time and the number
    of tasks that it has ended."""
    from forager.ledger.postgres import PostgresLedger

    ledger = await PostgresLedger.open(url, Catalog([pipeline]))
    worker = Worker(ledger, [pipeline], Resources(upstream), SystemClock(), options=WorkerOptions(name, capacity))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    running = asyncio.create_task(worker.run())
    while not stop.is_set() and not running.done():
        print(time.time(), worker.stats.ended["completed"], flush=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TELL_EVERY)
    await worker.drain(1.0)
    await running
    await ledger.close()
