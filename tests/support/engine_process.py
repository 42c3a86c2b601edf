"""The engine in a process of its own, to be killed: `python -m tests.support.engine_process '<options as JSON>'`.

It consists of the same parts as `forager worker`, and has what a chaos test needs: a wrong wall clock, a heartbeat that
misses one answer, and one deliberately broken build, which an auditor must find.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from forager.cli.supervise import beat_to_supervisor
from forager.core.clock import SystemClock
from forager.core.ledger import LeaseBatch, Session, Settlement, Want
from forager.core.pipeline import Lane, Pipeline
from forager.core.record import Record
from forager.core.states import TaskState
from tests.support.acts import QUICK, acts
from tests.support.engine import EngineRig, open_postgres, open_sqlite, serper
from tests.support.forked import start_forked

ROOT = Path(__file__).parents[2]
OWED = 10
"""Number of tasks whose records the broken build keeps for later transactions. Many pages are empty, so more than
one."""


@dataclass(frozen=True)
class Options:
    store: str
    """A folder for the embedded store, or the URL of a PostgreSQL database."""
    upstream: str = ""
    """The sandbox; without one the tasks are acts."""
    lease: float = 30.0
    concurrency: int = 32
    grace: float = 5.0
    wall_offset: float = 0.0
    """Error of this process's wall clock, in seconds."""
    deaf: bool = False
    """The heartbeat does not notice at first that its session was lost, so that only the fence is left."""
    broken: bool = False
    """Negative control: the records of a task are stored in a later transaction than its completion."""
    until_idle: bool = True
    fenced_log: str = ""
    """A file with a line for every refused settlement."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.engine_process", json.dumps(asdict(self))]


class WrongClock(SystemClock):
    def __init__(self, offset: float) -> None:
        super().__init__()
        self._offset = timedelta(seconds=offset)

    def now(self) -> datetime:
        return super().now() + self._offset


class ChaosLedger:
    """The real ledger, with the faults of the options."""

    def __init__(self, real: Any, options: Options) -> None:
        self._real = real
        self._options = options
        self._pretended: set[int] = set()
        self._owed: dict[int, deque[list[Record]]] = {}

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._real, verb)

    async def beat(self, session: Session, states: Any, wants: int = 0) -> datetime | None:
        now: datetime | None = await self._real.beat(session, states, wants)
        if now is not None:
            return now
        deaf = self._options.deaf and session.id not in self._pretended
        self._pretended.add(session.id)
        return await self._real.now() if deaf else None

    async def settle_and_lease(
        self, session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]
    ) -> LeaseBatch:
        if self._options.broken:
            settlements = [self._owing(s) for s in settlements]
        batch: LeaseBatch = await self._real.settle_and_lease(session, settlements, wants)
        if batch.fenced and self._options.fenced_log:
            with open(self._options.fenced_log, "a") as log:  # noqa: PTH123
                log.write("".join(f"{task}\n" for task in batch.fenced))
        return batch

    def _owing(self, settlement: Settlement) -> Settlement:
        """Give it the records of a task long before it, and keep its own for a later one."""
        if settlement.state is not TaskState.COMPLETED:
            return settlement
        owed = self._owed.setdefault(settlement.lease.job_id, deque())
        owed.append(list(settlement.records))
        settlement.records = owed.popleft() if len(owed) > OWED else []
        return settlement


def pipelines(options: Options) -> list[Pipeline]:
    if options.upstream:
        return [serper(options.upstream, concurrency=options.concurrency)]
    return [acts(Lane("acts", rate=None, concurrency=options.concurrency, retry=QUICK))]


async def open_store(options: Options) -> EngineRig:
    clock = WrongClock(options.wall_offset)
    if "://" in options.store:
        return await open_postgres(options.store, pipelines(options), lease=options.lease, clock=clock, create=False)
    return await open_sqlite(Path(options.store), pipelines(options), lease=options.lease, clock=clock)


async def work(options: Options) -> None:
    """Work as `forager worker` does: work and sweep until idle or stopped, then drain."""
    rig = await open_store(options)
    rig.ledger = ChaosLedger(rig.ledger, options)
    worker = rig.worker(options.upstream or "127.0.0.1:1", name=f"chaos:{os.getpid()}")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    beats = asyncio.create_task(beat_to_supervisor())
    async with _swept(rig):
        run = asyncio.create_task(worker.run(until_idle=options.until_idle))
        told = asyncio.create_task(stop.wait())
        await asyncio.wait([run, told], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        await worker.drain(options.grace)
        await run
    beats.cancel()
    await rig.close()


@contextlib.asynccontextmanager
async def _swept(rig: EngineRig) -> Any:
    from forager.engine.upkeep import sweep_forever, sweep_interval

    sweeper = asyncio.create_task(sweep_forever(rig.ledger, rig.clock, sweep_interval(rig.lease)))
    try:
        yield
    finally:
        sweeper.cancel()


# ── started from a test ──


def start(options: Options) -> ForkServerProcess:
    """A fresh process, forked from one that has loaded everything already: kills cost no second of importing."""
    return start_forked(work, options)


@contextlib.contextmanager
def started(options: Options) -> Iterator[ForkServerProcess]:
    process = start(options)
    try:
        yield process
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    asyncio.run(work(Options(**json.loads(sys.argv[1]))))
