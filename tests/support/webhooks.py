"""Jobs that end, the webhook sink, the real worker and a receiver: everything between a job's end and its message."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from forager.core.clock import Clock, SystemClock
from forager.core.ledger import NewJob
from forager.core.task import Plan
from forager.engine.work.worker import Worker
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.ledger.catalog import Catalog
from forager.ledger.reports import LedgerReports
from forager.sandbox.receiver import WebhookReceiver
from forager.sinks.webhook import pipeline, signing
from forager.sinks.webhook.outbox import WebhookSink, webhook_sink
from forager.sinks.webhook.pipeline import build as build_webhooks
from tests.support.acts import Act, acts, many
from tests.support.auditor import Row
from tests.support.deliveries import deliver_new
from tests.support.engine import PATIENCE, EngineRig, make_worker, open_postgres, open_sqlite, until

SECRET = "whk-CANARY-5f0b1c2d3e"


@dataclass
class Outbox:
    """`engine` is the store with its rows; `sink` and `worker` are the real ones on it."""

    engine: EngineRig
    sink: WebhookSink
    worker: Worker
    receiver: WebhookReceiver
    fetcher: HttpFetcher

    async def end_job(self, plans: Iterable[Plan] = (), *, callback: str | None = None, **params: Any) -> UUID:
        """Submit a job; it ends when `work` is called."""
        params = {**params, **({"callback_url": callback} if callback else {})}
        job: UUID = (await self.engine.ledger.submit(NewJob("acts", params), list(plans) or many(2))).job
        return job

    async def tell(self) -> None:
        """The sink reads what is new."""
        await deliver_new(self.engine.ledger, self.sink, self.engine.clock)

    async def until(self, holds: Any, patience: float = PATIENCE) -> None:
        await until(holds, patience)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.worker.run())
        try:
            async with asyncio.timeout(60):
                yield
        finally:
            await self.worker.drain(0.5)
            await asyncio.wait_for(task, PATIENCE)

    def deliveries(self) -> list[Row]:
        tables = self.engine.tables
        return tables.read(f"SELECT t.* FROM {tables.tasks} t WHERE t.kind = 'webhook' ORDER BY t.id")

    def standing_jobs(self) -> list[Row]:
        return self.engine.tables.read("SELECT * FROM jobs WHERE pipeline = 'deliveries' ORDER BY id")

    def ended(self, *jobs: UUID) -> bool:
        return all(self.engine.job(job)["finished_at"] is not None for job in jobs)


@asynccontextmanager
async def open_outbox(
    where: Path | str,
    *,
    default: bool = True,
    secret: str | None = SECRET,
    clock: Clock | None = None,
    path: str = "/hook",
    create: bool = True,
    receiver: WebhookReceiver | None = None,
    allow: Sequence[str] = (),
) -> AsyncIterator[Outbox]:
    """`where`: a folder for SQLite, or the URL of a PostgreSQL database."""
    clock = clock or SystemClock()
    own = receiver or WebhookReceiver([SECRET], clock.now)
    await own.start()
    url = own.url(path) if default else None
    pipelines = [acts(), build_webhooks(url)]
    engine = await (
        open_sqlite(where, pipelines, clock=clock)
        if isinstance(where, Path)
        else open_postgres(where, pipelines, clock=clock, create=create)
    )
    fetcher = HttpFetcher(
        EgressGuard([own.endpoint, *allow]),
        clock,
        {pipeline.SECRET: secret}.get,
        sign=signing.sign,
    )
    engine.fetchers.append(fetcher)
    sink = webhook_sink(engine.ledger, LedgerReports(engine.ledger.database, Catalog(pipelines)), url, {})
    try:
        yield Outbox(engine, sink, make_worker(engine.ledger, pipelines, fetcher, clock), own, fetcher)
    finally:
        await engine.close()
        await own.stop()


def failing(count: int) -> list[Plan]:
    return [Plan(Act(name=f"f{n}", how="fail")) for n in range(count)]
