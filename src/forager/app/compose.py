"""Opens an application: builds every part from the settings, in the order in which they need each other."""

import gc
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from forager.app.application import App, Network, Stores
from forager.app.features import all_features
from forager.app.machine import THIS_MACHINE, Machine
from forager.app.wiring import (
    JobTokens,
    build_pipelines,
    check_blobs,
    check_keys,
    logins,
    open_blobs,
    open_browsers,
    open_ledger,
    open_proxies,
    open_rules,
    secrets,
    via_fetcher,
    via_purse,
)
from forager.core.clock import Clock, SystemClock
from forager.core.http import Fetch
from forager.core.ledger import JobNews
from forager.core.pipeline import Pipeline
from forager.core.recording import Player, Recorder
from forager.engine.lanes.fetch import Resources
from forager.engine.upkeep import StoredPages
from forager.engine.work.job_log import JobLog
from forager.engine.work.worker import Worker, WorkerOptions
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import Fetcher, HttpFetcher
from forager.fetch.robots import RobotsTxt
from forager.ledger.catalog import Catalog
from forager.ledger.reports import LedgerReports
from forager.ledger.tables.domains import Domains, LedgerRobots, follow_declared
from forager.ledger.tables.job_secrets import JobSecretTable
from forager.ledger.tables.page_sessions import PageSessionTable
from forager.ledger.tables.pages import ArchiveTable, BlobReferences
from forager.ledger.tables.proxies import ProxyTable
from forager.ledger.tables.sinks import SinkTable
from forager.ledger.tables.vault import VaultTable
from forager.sdk.feature import Feature
from forager.secrets.sealing import rotate_keys, sealer_for
from forager.settings import Settings
from forager.sinks.webhook import signing

if TYPE_CHECKING:
    from forager.app.telemetry import Telemetry


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    clock: Clock | None = None,
    may_create: bool = True,
    must_fit: bool = False,
    around: Callable[[Fetch], Fetch] = lambda fetch: fetch,
    player: Player | None = None,
    machine: Machine = THIS_MACHINE,
) -> AsyncIterator[App]:
    """Build an `App` from these settings, and close everything at the end of the block.

    `may_create`: whether a store that does not exist is created, as the embedded one or as tables of an empty
    PostgreSQL database. `must_fit`: raise `StoreError` unless this process has the keys and the folder of pages that
    the ledger needs; set by processes that work. `around` wraps what sends the requests of steps: simulated time must
    stand still while one is under way. `player` answers the requests of steps in place of the network. `machine`: the
    threads, processes, connections and chances that the application uses; a simulation has its own.
    """
    clock = clock or SystemClock()
    features = all_features()
    pipelines = build_pipelines(settings, features)
    catalog = Catalog(pipelines, evidence_days=settings.evidence_days)
    async with AsyncExitStack() as stack:
        stores = await _open_stores(settings, catalog, clock, machine, stack, may_create=may_create, must_fit=must_fit)
        network = await _open_network(settings, features, pipelines, stores, clock, machine, stack)
        telemetry: Telemetry | None = None
        if settings.otel_endpoint is not None and player is None:
            from forager.app.telemetry import open_telemetry  # a command should start fast

            telemetry = open_telemetry(settings, stores.ledger.database)
            # before all that has last lines to log and last attempts to settle
            await stack.enter_async_context(telemetry.running())
        worker = _make_worker(settings, pipelines, stores, network, clock, machine, stack, around, player, telemetry)
        _start_job_log(features, pipelines, stores, worker, clock, stack, telemetry)
        if telemetry is not None:
            worker.when_settled(telemetry.settled)
        network.rules.when_changed(worker.adopt_rules)
        network.rules.when_changed(lambda: catalog.name_lanes_by(network.rules.politeness.lane_name))
        _spare_the_collector()
        app = App(settings, features, pipelines, clock, stores, network, worker, telemetry)
        stack.push_async_callback(app.close)
        await app.roster.refresh()
        for feature in features:
            if feature.prepare is not None:
                await feature.prepare.load()(app)
        yield app


async def _open_stores(
    settings: Settings,
    catalog: Catalog,
    clock: Clock,
    machine: Machine,
    stack: AsyncExitStack,
    *,
    may_create: bool,
    must_fit: bool,
) -> Stores:
    """Open the ledger, its tables, and the stored pages. The stack closes them."""
    ledger = await open_ledger(settings, catalog, clock, machine, may_create=may_create)
    stack.push_async_callback(ledger.close)
    database, now_ms = ledger.database, ledger.now_ms
    sealer = sealer_for(settings.home, settings.secret_key)
    proxies, job_secrets = ProxyTable(database, now_ms, sealer), JobSecretTable(database, sealer)
    vault = VaultTable(database, sealer)
    if must_fit:
        await check_keys(sealer, [proxies, job_secrets, vault])
        await check_blobs(settings, database)
        await follow_declared(database, catalog.queues, catalog.shared)
    blobs = open_blobs(settings, database, clock, machine)
    stack.push_async_callback(blobs.close)
    return Stores(
        ledger=ledger,
        reports=LedgerReports(database, catalog),
        domains=Domains(database, now_ms),
        proxies=proxies,
        sinks=SinkTable(database, now_ms),
        job_secrets=job_secrets,
        vault=vault,
        page_sessions=PageSessionTable(database, vault, now_ms),
        archives=ArchiveTable(database, catalog, now_ms),
        pages=StoredPages(blobs, BlobReferences(database, catalog), clock),
        rotate_keys=partial(rotate_keys, sealer, [proxies, job_secrets, vault]),
    )


async def _open_network(
    settings: Settings,
    features: Sequence[Feature],
    pipelines: Sequence[Pipeline],
    stores: Stores,
    clock: Clock,
    machine: Machine,
    stack: AsyncExitStack,
) -> Network:
    """Open what requests pass through: proxies, HTTP connections, browsers. The stack closes them."""
    guard = EgressGuard(settings.egress_allow)
    # Set below: the fetcher takes proxies from the pool, and the pool checks proxies through the fetcher.
    fetcher: HttpFetcher
    proxies = await open_proxies(settings, stores.proxies, guard, clock, lambda request: fetcher(request))
    stack.push_async_callback(proxies.close)
    fetcher = machine.fetcher(
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
    rules = await open_rules(settings, stores.domains, pipelines)
    tokens = {
        each.name: each.tokens.load()(settings, stores.vault, stores.ledger.database, fetcher, clock)
        for each in features
        if each.tokens is not None
    }
    via = via_purse(settings, stores.ledger.database, stores.ledger.now_ms)
    return Network(guard, rules, proxies, fetcher, browsers, logins(settings, fetcher, clock), tokens, via)


def _make_worker(
    settings: Settings,
    pipelines: Sequence[Pipeline],
    stores: Stores,
    network: Network,
    clock: Clock,
    machine: Machine,
    stack: AsyncExitStack,
    around: Callable[[Fetch], Fetch],
    player: Player | None,
    telemetry: "Telemetry | None",
) -> Worker:
    """Build the worker. The processes that parse pages start with the first page, and the stack ends them."""
    offload = machine.readers(settings.readers or max(1, os.cpu_count() or 1))
    stack.push_async_callback(offload.close)
    recorder: Recorder | None = None
    if settings.record and player is None:
        from forager.app.recording import FolderRecorder, recordings_folder  # a command should start fast

        internal = [pipeline.name for pipeline in pipelines if pipeline.internal]
        folder = recordings_folder(settings.home)
        recorder = files = FolderRecorder(folder, settings.record, keep_days=settings.record_days, internal=internal)
        stack.push_async_callback(files.close)
    http = around(network.fetcher)
    through = via_fetcher(settings, http, network.guard, network.via)
    resources = Resources(
        Fetcher(http, network.browsers, network.logins, stores.page_sessions, through),
        RobotsTxt(LedgerRobots(stores.ledger.database), clock, agent=settings.robots_agent, offload=offload),
        network.proxies,
        JobTokens(stores.job_secrets, list(network.tokens.values())),
        stores.pages.blobs,
        offload,
        recorder,
        player,
        telemetry,
    )
    options = WorkerOptions(machine.name(), settings.capacity, settings.patience_hours * 3600, random=machine.random())
    return Worker(stores.ledger, pipelines, resources, clock, rules=network.rules, options=options)


def _start_job_log(
    features: Sequence[Feature],
    pipelines: Sequence[Pipeline],
    stores: Stores,
    worker: Worker,
    clock: Clock,
    stack: AsyncExitStack,
    telemetry: "Telemetry | None",
) -> None:
    """Log the start and the end of every job, and what its pipeline logs of its tasks."""
    job_log = JobLog(
        stores.reports,
        clock,
        pipelines,
        {feature.name: feature.log.load() for feature in features if feature.log is not None},
        by_task=[feature.name for feature in features if feature.logs_every_task],
    )
    worker.when_settled(job_log.settled)

    def changed(news: Sequence[JobNews]) -> None:  # the ledger reports to one callback
        job_log.changed(news)
        if telemetry is not None:
            telemetry.jobs_changed(news)

    stores.ledger.when_jobs_change(changed)
    job_log.start()
    stack.push_async_callback(job_log.close)


@cache
def _spare_the_collector() -> None:
    """Exclude everything that exists now (classes, pipelines) from garbage collection. It stays alive anyway, and
    scanning it repeatedly would cost a tenth of the time of every task. Objects that a task creates are freed by
    reference counting. Once in a process: an application that is opened later must not keep the garbage of earlier
    ones."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
