"""Workers that join one after the other, many writers, and slow commits: three measurements on one PostgreSQL."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import psutil

from bench.support.scale_worker import PACED, PIPELINE, SLOW, WRITING, ScaleJob, plan
from bench.support.stores import Store, Stores, open_ledger
from bench.support.worker_process import Process, worker
from forager.core.ledger import NewJob
from forager.engine.waits import QUANTUM
from forager.ledger.catalog import Catalog

WORKER = "bench.support.scale_worker"
LANES = 64
WORKERS = 4
CAPACITY = 64
TAKES_MS = 200
JOINED_FOR = 1.5 * QUANTUM
COUNTED_FOR = 8.0
WRITERS = 8
RECORDS = 10
PACED_RATE = 5

# Every transaction that numbers changes sleeps at its commit, with the tail row locked, as a slow disk would make it.
SLOW_COMMITS = """
CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('bench.slept', true) IS DISTINCT FROM txid_current()::text THEN
    PERFORM pg_sleep(0.01), set_config('bench.slept', txid_current()::text, true);
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slow_commit AFTER UPDATE ON tail DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION slow_commit()
"""


@dataclass(frozen=True)
class Speed:
    per_s: float
    worker_ms: float
    """CPU per task of all workers together …"""
    server_ms: float
    """… and of PostgreSQL."""


async def joining(stores: Stores, workers: int = WORKERS) -> list[Speed]:
    """Return the speed of one worker, of two, …, each measured when the newest has its share."""
    seconds = (JOINED_FOR + COUNTED_FOR) * workers + 30
    tasks = round(seconds * workers * CAPACITY / (TAKES_MS / 1000) / LANES)
    job = ScaleJob(family=SLOW, lanes=LANES, tasks=tasks, takes_ms=TAKES_MS)
    speeds: list[Speed] = []
    async with _filled(stores, job) as store:
        with contextlib.ExitStack() as stack:
            processes: list[Process] = []
            for number in range(workers):
                processes.append(stack.enter_context(worker(WORKER, _url(store), f"w{number}", str(CAPACITY))))
                await _begun(processes)
                await asyncio.sleep(JOINED_FOR)
                speeds.append(await _speed(processes, stores))
    return speeds


async def writing(stores: Stores, writers: int, tasks: int) -> float:
    """Return the tasks with records per second that this number of worker processes settles."""
    job = ScaleJob(family=WRITING, lanes=2 * WRITERS, tasks=tasks // (2 * WRITERS), records=RECORDS)
    async with _filled(stores, None) as store:
        with contextlib.ExitStack() as stack:
            processes = [
                stack.enter_context(worker(WORKER, _url(store), f"w{number}", "400")) for number in range(writers)
            ]
            await _begun(processes)
            db = await asyncpg.connect(_url(store))
            await _submit(store, job)
            try:
                first, began = await _completed(db, tasks // 10)
                last, ended = await _completed(db, tasks * 9 // 10)
            finally:
                await db.close()
    return (last - first) / (ended - began)


async def paced(stores: Stores, *, slow_commits: bool) -> float:
    """Return the share of their rate that 64 lanes keep, on two workers."""
    tasks = round(PACED_RATE * (JOINED_FOR + COUNTED_FOR + 30))
    job = ScaleJob(family=PACED, lanes=LANES, tasks=tasks, takes_ms=100, records=1)
    async with _filled(stores, job) as store:
        if slow_commits:
            db = await asyncpg.connect(_url(store))
            await db.execute(SLOW_COMMITS)
            await db.close()
        with (
            worker(WORKER, _url(store), "first", "400") as first,
            worker(WORKER, _url(store), "second", "400") as second,
        ):
            await _begun([first, second])
            await asyncio.sleep(JOINED_FOR)
            return await _rate([first, second]) / (LANES * PACED_RATE)


@contextlib.asynccontextmanager
async def _filled(stores: Stores, job: ScaleJob | None) -> AsyncIterator[Store]:
    store = stores.new("postgres")
    try:
        await _submit(store, job)
        stores.settle()
        yield store
    finally:
        stores.drop(store)


async def _submit(store: Store, job: ScaleJob | None) -> None:
    async with open_ledger(store, Catalog([PIPELINE])) as ledger:
        if job is not None:
            await ledger.submit(NewJob(PIPELINE.name, job.model_dump()), plan(job))


def _url(store: Store) -> str:
    assert store.url is not None
    return store.url


async def _begun(processes: list[Process]) -> None:
    while not all(each.told for each in processes):
        await asyncio.sleep(0.05)


async def _speed(processes: list[Process], stores: Stores) -> Speed:
    def used() -> tuple[float, float]:
        server = psutil.Process(stores.server.pid)
        return sum(_cpu(psutil.Process(each.popen.pid)) for each in processes), _cpu(server)

    workers, server = used()
    per_s = await _rate(processes)
    workers, server = (1000 * (now - then) for now, then in zip(used(), (workers, server), strict=True))
    tasks = per_s * COUNTED_FOR
    return Speed(per_s, workers / tasks, server / tasks)


def _cpu(process: psutil.Process) -> float:
    """Seconds of a process and its children, as long as they live."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system
    return total


async def _rate(processes: list[Process]) -> float:
    """Tasks per second of all of them together, over the next seconds."""
    start = time.time()
    await asyncio.sleep(COUNTED_FOR)
    end = time.time()
    return sum(each.ended_between(start, end) / _span(each, start, end) for each in processes)


def _span(process: Process, start: float, end: float) -> float:
    """Seconds between the first and the last line in this time: with the count of both, the rate is exact."""
    moments = [at for at, _ in process.told if start <= at <= end]
    return max(moments[-1] - moments[0], 0.001) if moments else 1.0


async def _completed(db: asyncpg.Connection, least: int) -> tuple[int, float]:
    """Wait until this number of tasks is completed. Return their number, and when it was read."""
    while True:
        count: int = await db.fetchval("SELECT coalesce(sum(completed), 0)::bigint FROM jobs")
        if count >= least:
            return count, time.monotonic()
        await asyncio.sleep(0.02)
