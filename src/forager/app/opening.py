"""Opens an application: builds every part from the settings, in the order in which they need each other."""

import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial

from forager.app.application import App
from forager.app.fit import check_keys
from forager.app.page_store import check_blobs, open_blobs
from forager.core.clock import Clock, SystemClock
from forager.core.http import Fetch
from forager.engine.job_log import JobLog
from forager.engine.stored_pages import StoredPages
from forager.engine.work import Worker
from forager.features import all_features
from forager.fetch import EgressGuard, HttpFetcher
from forager.fetch.credentials import SERVICE_KEY
from forager.fetch.fetcher import Fetcher
from forager.fetch.robots import RobotsTxt
from forager.ledger.catalog import Catalog
from forager.ledger.reports import Reports
from forager.ledger.side_tables.archives import ArchiveTable
from forager.ledger.side_tables.blob_references import BlobReferences
from forager.ledger.side_tables.domains import Domains
from forager.ledger.side_tables.job_secrets import JobSecretTable
from forager.ledger.side_tables.lane_queues import follow_declared
from forager.ledger.side_tables.proxies import ProxyTable
from forager.ledger.side_tables.robots import LedgerRobots
from forager.ledger.side_tables.sinks import SinkTable
from forager.offload.pool import ProcessPool
from forager.secrets.sealing import rotate_keys, sealer_for
from forager.settings import Settings
from forager.sinks.webhook import signing
from forager.wiring import (
    build_pipelines,
    logins,
    open_browsers,
    open_ledger,
    open_proxies,
    open_rules,
    secrets,
)


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    may_create: bool = True,
    must_fit: bool = False,
    around: Callable[[Fetch], Fetch] = lambda fetch: fetch,
) -> AsyncIterator[App]:
    """Build an `App` from these settings, and close everything at the end of the block.

    `may_create`: whether a store that does not exist is created, as the embedded one or as tables of an empty
    PostgreSQL database. `must_fit`: raise `StoreError` unless this
    process has the keys and the folder of pages that the ledger needs; set by processes that work. `around` wraps
    what sends the requests of steps: simulated time must stand still while one is under way.
    """
    clock = clock or SystemClock()
    features = all_features()
    pipelines = build_pipelines(settings, features)
    catalog = Catalog(pipelines, evidence_days=settings.evidence_days)
    async with AsyncExitStack() as stack:
        ledger = await open_ledger(settings, catalog, clock, may_create=may_create)
        stack.push_async_callback(ledger.close)
        guard = EgressGuard(settings.egress_allow)
        sealer = sealer_for(settings.home, settings.secret_key)
        table = ProxyTable(ledger.database, ledger.now_ms, sealer)
        job_secrets = JobSecretTable(ledger.database, sealer)
        if must_fit:
            await check_keys(sealer, [table, job_secrets])
            await check_blobs(settings, ledger.database)
            await follow_declared(ledger.database, catalog.queues, catalog.shared)
        # Set below: the fetcher asks the pool for proxies, and the pool checks proxies through the fetcher.
        fetcher: HttpFetcher
        proxies = await open_proxies(settings, table, guard, clock, lambda request: fetcher(request))
        stack.push_async_callback(proxies.close)
        fetcher = HttpFetcher(
            guard,
            clock,
            secrets(settings, features),
            user_agent=settings.user_agent,
            limit=settings.capacity,
            endpoint_of=proxies.endpoint,
            sign=signing.sign_with_each,
        )
        stack.push_async_callback(fetcher.close)
        browsers = await open_browsers(settings, guard, clock, proxies)
        stack.push_async_callback(browsers.close)
        blobs = open_blobs(settings, ledger.database, clock)
        stack.push_async_callback(blobs.close)
        offload = ProcessPool(settings.parse_processes, clock)
        stack.push_async_callback(offload.close)
        domains = Domains(ledger.database, ledger.now_ms)
        rules = await open_rules(settings, domains, pipelines)
        known_logins = logins(settings, fetcher, clock)
        worker = Worker(
            ledger,
            pipelines,
            Fetcher(around(fetcher), browsers, known_logins),
            clock,
            name=f"{socket.gethostname()}:{os.getpid()}",
            capacity=settings.capacity,
            rules=rules,
            robots=RobotsTxt(LedgerRobots(ledger.database), clock, agent=settings.robots_agent),
            proxies=proxies,
            job_secrets=job_secrets,
            blobs=blobs,
            offload=offload,
            patience=settings.patience_hours * 3600,
        )
        reports = Reports(ledger.database, catalog)
        job_log = JobLog(
            reports,
            clock,
            worker.pipeline_of,
            {feature.name: feature.log.load() for feature in features if feature.log is not None},
            by_task=[feature.name for feature in features if feature.logs_every_task],
            silent=[each.name for each in pipelines if each.internal],
        )
        worker.when_settled(job_log.settled)
        ledger.when_jobs_change(job_log.changed)
        job_log.start()
        stack.push_async_callback(job_log.close)
        rules.when_changed(worker.adopt_rules)
        rules.when_changed(lambda: catalog.name_lanes_by(rules.politeness.lane_name))
        _spare_the_collector()
        rotate = partial(rotate_keys, sealer, [table, job_secrets])
        sinks = SinkTable(ledger.database, ledger.now_ms)
        app = App(
            settings,
            features,
            clock,
            pipelines,
            ledger,
            reports,
            worker,
            domains,
            sinks,
            rules,
            proxies,
            browsers,
            rotate,
            job_secrets,
            StoredPages(blobs, BlobReferences(ledger.database, catalog), clock),
            guard,
            ArchiveTable(ledger.database, catalog, ledger.now_ms),
        )
        if known_logins is not None:
            app.refused_keys = lambda: {SERVICE_KEY: known_logins.refusal} if known_logins.refusal is not None else {}
        stack.push_async_callback(app.close)
        await app.roster.refresh()
        for feature in features:
            if feature.prepare is not None:
                await feature.prepare.load()(app)
        yield app


@cache
def _spare_the_collector() -> None:
    """Exclude everything that exists now (classes, pipelines) from garbage collection. It stays alive anyway, and
    scanning it repeatedly would cost a tenth of the time of every task. Objects that a task creates are freed by
    reference counting. Once in a process: an application that is opened later must not keep the garbage of earlier
    ones."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
