"""The real engine on a real ledger: what a test needs to submit, work, look at the rows, and audit them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from forager.core.clock import Clock, SystemClock
from forager.core.errors import Retry
from forager.core.http import Fetch, Request, Response
from forager.core.ledger import Ledger, NewJob, Submitted
from forager.core.pipeline import JobLimits, Pipeline
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.engine.lanes.fetch import Resources
from forager.engine.upkeep import sweep_forever, sweep_interval
from forager.engine.work.worker import Worker, WorkerOptions
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.ledger.catalog import Catalog
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.tables.schedules import ScheduleTable
from forager.pipelines.places.job import PlacesJob
from forager.pipelines.places.pipeline import build as build_places
from forager.pipelines.places.pipeline import places, plan
from forager.pipelines.places.steps import Serper
from forager.pipelines.places.zips import shipped_zips
from forager.sandbox import SerperSandbox
from tests.support.auditor import PostgresTables, Row, SqliteTables, Tables, audit
from tests.support.schema_templates import create_schema, create_store_file

QUICK = Retry(3, first=0.05)
PATIENCE = 60.0
TICK = 0.01


def serper(url: str, *, timeout: float = 5.0, **lane: Any) -> Pipeline:
    """Places on a sandbox; by default with quick retries and no limit on the rate."""
    policy = replace(places.lanes[0], **{"rate": None, "retry": QUICK, **lane})
    return build_places(Serper(base_url=url, timeout=timeout), lane=policy)


def zip_codes(count: int) -> tuple[str, ...]:
    table = shipped_zips()
    known = [z.zip for state in ("AZ", "CA", "NY", "TX", "FL", "PA", "IL", "OH", "MI") for z in table.of_state(state)]
    assert len(known) >= count
    return tuple(known[:count])


def make_worker(ledger: Ledger, pipelines: Sequence[Pipeline], fetch: Fetch, clock: Clock, **more: Any) -> Worker:
    """A worker; `more` holds its `rules` and any field of `Resources` and `WorkerOptions`."""
    rules = more.pop("rules", None)
    outside = {each.name: more.pop(each.name) for each in fields(Resources) if each.name in more}
    return Worker(ledger, pipelines, Resources(fetch, **outside), clock, rules=rules, options=WorkerOptions(**more))


@dataclass
class EngineRig:
    """One store, and as many workers on it as a test starts (on SQLite they share the one process)."""

    ledger: Any
    tables: Tables
    pipelines: Sequence[Pipeline]
    clock: Clock
    lease: float
    key: str = "sandbox-key"
    fetchers: list[HttpFetcher] = field(default_factory=list)
    may_rest: bool = False
    """True if lanes sleep by their own rules (hours, long pauses)."""
    starts: list[float] = field(default_factory=list)
    """Times at which requests were sent, by the monotonic clock."""

    @property
    def schedules(self) -> ScheduleTable:
        return ScheduleTable(self.ledger.database)

    def last_change(self) -> int:
        return int(self.tables.read("SELECT change FROM tail")[0]["change"])

    def worker(self, *endpoints: str, **more: Any) -> Worker:
        guard = EgressGuard([urlsplit(e).netloc or e for e in endpoints])
        capacity = more.setdefault("capacity", 400)
        fetcher = HttpFetcher(guard, self.clock, lambda _: self.key, limit=capacity)
        self.fetchers.append(fetcher)

        async def send(request: Request) -> Response:
            self.starts.append(time.monotonic())
            return await fetcher(request)

        return make_worker(self.ledger, self.pipelines, send, more.pop("clock", self.clock), **more)

    async def submit(self, plans: Iterable[Plan], pipeline: str = "acts", **limits: Any) -> UUID:
        submitted: Submitted = await self.ledger.submit(NewJob(pipeline, {}, JobLimits(**limits)), plans)
        return submitted.job

    async def submit_places(self, zips: int | Sequence[str], *, keyword: str = "bars", **more: Any) -> UUID:
        codes = zip_codes(zips) if isinstance(zips, int) else tuple(zips)
        job = PlacesJob(keyword=keyword, zips=codes, **more)
        new = NewJob("places", job.model_dump(mode="json"), places.limits(job))
        submitted: Submitted = await self.ledger.submit(new, plan(job, shipped_zips()))
        return submitted.job

    async def run(self, *endpoints: str, **more: Any) -> Worker:
        """Work until nothing is left to do, then audit."""
        worker = self.worker(*endpoints, **more)
        async with asyncio.timeout(PATIENCE):
            await worker.run(until_idle=True)
        self.check()
        return worker

    @asynccontextmanager
    async def working(
        self, worker: Worker, *, sweep: bool = True, patience: float = PATIENCE
    ) -> AsyncIterator[asyncio.Task[None]]:
        """The engine at work beside the test, as `up` runs it; stopped at the end."""
        task = asyncio.create_task(worker.run())
        sweeper = asyncio.create_task(sweep_forever(self.ledger, self.clock, sweep_interval(self.lease)))
        if not sweep:
            sweeper.cancel()
        try:
            async with asyncio.timeout(patience):
                yield task
        finally:
            sweeper.cancel()
            await worker.drain(0.5)
            await asyncio.wait_for(task, PATIENCE)

    def check(self) -> None:
        broken = audit(self.tables, [r for p in self.pipelines for r in p.records], may_rest=self.may_rest)
        assert not broken, broken

    def job(self, job: UUID) -> Row:
        (row,) = self.tables.read(f"SELECT * FROM jobs WHERE public_id = '{job}'")
        return row

    def tasks(self, job: UUID) -> dict[str, Row]:
        rows = self.tables.read(
            f"SELECT t.* FROM {self.tables.tasks} t JOIN jobs j ON j.id = t.job_id WHERE j.public_id = '{job}'"
        )
        return {row["key"]: row for row in rows}

    def states(self, job: UUID) -> dict[str, str]:
        return {key: TaskState(row["state"]).name.lower() for key, row in sorted(self.tasks(job).items())}

    def evidence(self, task: int) -> bytes:
        rows = self.tables.read(f"SELECT body FROM evidence WHERE task_id = {task}")
        return bytes(rows[0]["body"]) if rows else b""

    async def close(self, *, tables: bool = True) -> None:
        """Close everything; without `tables` those of the auditor stay open, because they are another's."""
        for fetcher in self.fetchers:
            await fetcher.close()
        await self.ledger.close()
        if tables:
            self.tables.close()


async def open_sqlite(
    folder: Path, pipelines: Sequence[Pipeline], *, lease: float = 30.0, clock: Clock | None = None, **more: Any
) -> EngineRig:
    catalog, path, clock = Catalog(pipelines), folder / "ledger.db", clock or SystemClock()
    if not path.exists():
        create_store_file(path, catalog)
    ledger = await SqliteLedger.open(path, catalog, clock=clock, lease_seconds=lease, **more)
    return EngineRig(ledger, SqliteTables(path), pipelines, clock, lease)


async def open_postgres(
    url: str,
    pipelines: Sequence[Pipeline],
    *,
    lease: float = 30.0,
    clock: Clock | None = None,
    create: bool = True,
    tables: PostgresTables | None = None,
    **more: Any,
) -> EngineRig:
    from forager.ledger.postgres import PostgresLedger

    catalog = Catalog(pipelines)
    if create:
        await asyncio.to_thread(create_schema, url, catalog)
    ledger = await PostgresLedger.open(url, catalog, lease_seconds=lease, **more)
    return EngineRig(ledger, tables or PostgresTables(url), pipelines, clock or SystemClock(), lease)


async def until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Look again and again until something holds: for what has no event of its own to wait for."""
    async with asyncio.timeout(patience):
        while not holds():
            await asyncio.sleep(TICK)


@asynccontextmanager
async def silence() -> AsyncIterator[str]:
    """An upstream that accepts every connection and never answers."""
    writers: list[asyncio.StreamWriter] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await reader.read()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


def most_in_flight(sandbox: SerperSandbox) -> int:
    """The most requests that the sandbox held at once, from its log."""
    moments = sorted(m for e in sandbox.log for m in ((e.at, 1), (e.done if e.done is not None else e.at, -1)))
    most = now = 0
    for _, step in sorted(moments, key=lambda m: (m[0], m[1])):
        now += step
        most = max(most, now)
    return most


def most_in_a_second(starts: Sequence[float]) -> int:
    """The most starts in any window of one second, wherever it begins."""
    first = most = 0
    for last, at in enumerate(starts):
        while starts[first] <= at - 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most
