"""Builds each part from the settings. Part of the composition root: only `app` uses it, and joins the parts."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from forager.core.clock import Clock
from forager.core.errors import FieldError, Rejected
from forager.core.http import Fetch
from forager.core.ledger import Ledger
from forager.core.pipeline import Breaker, Pipeline
from forager.core.retention import Keep
from forager.core.states import ENDS, TaskState
from forager.features import all_features, all_sinks
from forager.fetch import EgressGuard
from forager.fetch.browser.chromium import ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.browser.gate import Gate
from forager.fetch.browser.pool import PoolLimits
from forager.fetch.credentials import SERVICE_KEY, CredentialClient
from forager.fetch.logins import Logins
from forager.fetch.proxies import ProxyPool, given_proxies
from forager.fetch.proxy_check import ProxyCheck
from forager.kit.feature import Feature
from forager.kit.publication import Publication
from forager.kit.references import FromTable
from forager.ledger.catalog import Catalog
from forager.ledger.schema.migrate import ensure_postgres, ensure_sqlite
from forager.ledger.schema.namespace import locate
from forager.ledger.side_tables.domains import Domains
from forager.ledger.side_tables.proxies import ProxyTable
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite.lock import has_store, no_store, usable_folder
from forager.politeness.precedence import ground
from forager.politeness.rulebook import Rulebook
from forager.settings import Settings
from forager.sinks.kafka.settings import KafkaSettings

TASKS_NEED_POSTGRES = (
    "FORAGER_KAFKA_TASKS needs PostgreSQL (FORAGER_DATABASE_URL): the embedded store belongs to one process, so that no"
    " Kafka worker could claim a task. Unset it: that process does the work itself."
)


def build_pipelines(settings: Settings, features: Iterable[Feature] | None = None) -> tuple[Pipeline, ...]:
    """Build the pipeline of every feature from its settings. Pipelines that a warehouse mirrors tell every end of a
    task, if the settings configure a warehouse; those that publish their tasks tell every new one, if Kafka workers do
    the work. Otherwise the log, and the engine, are spared these changes. Raises `Rejected` if settings do not fit."""
    mirrored = any(sink.mirrors is not None and sink.mirrors.load()(settings) for sink in all_sinks())
    offered = settings.of(KafkaSettings).kafka_tasks
    if offered and settings.database_url is None:
        raise Rejected(TASKS_NEED_POSTGRES, fields=[FieldError("kafka_tasks", "needs FORAGER_DATABASE_URL")])
    pipelines: list[Pipeline] = []
    for feature in all_features() if features is None else features:
        pipeline: Pipeline = feature.build.load()(settings)
        if mirrored and feature.mirror is not None:
            pipeline = replace(pipeline, tells=pipeline.tells | ENDS)
        if offered and _publishes_tasks(feature):
            pipeline = replace(pipeline, tells=pipeline.tells | {TaskState.READY})
        pipelines.append(pipeline)
    return tuple(pipelines)


def _publishes_tasks(feature: Feature) -> bool:
    publication: Publication | None = None if feature.publication is None else feature.publication.load()
    return publication is not None and bool(publication.stages)


def blob_folder(settings: Settings) -> Path:
    """Return the folder in which pages are stored."""
    return settings.home / "blobs"


def keep_of(settings: Settings) -> Keep:
    """Return how long each kind of data is kept; 0 days in the settings mean for ever."""

    def seconds(days: float) -> float | None:
        return days * 86_400 or None

    return Keep(
        jobs=seconds(settings.keep_jobs_days),
        messages=seconds(settings.keep_messages_days),
        rejected=seconds(settings.keep_rejected_days),
        attempts=seconds(settings.keep_attempts_days),
        changes=seconds(settings.keep_changes_days),
        records=seconds(settings.keep_records_days),
    )


async def open_ledger(settings: Settings, catalog: Catalog, clock: Clock, *, may_create: bool = True) -> Ledger:
    """Open the store that the settings name. Without `may_create`, raises `NotFound` if there is no embedded store in
    the data folder, and `StoreOutdated` if a PostgreSQL database has no tables."""
    if settings.database_url is None:
        path = settings.home / "ledger.db"
        if not may_create and not has_store(settings.home):
            raise no_store(settings.home)
        with usable_folder(settings.home):
            await asyncio.to_thread(ensure_sqlite, path, catalog)
        return await SqliteLedger.open(path, catalog, clock=clock, lease_seconds=settings.lease_seconds)
    from forager.ledger.postgres import PostgresLedger  # the driver is an extra

    url = await asyncio.to_thread(locate, settings.database_url, settings.database_schema)
    pooled = settings.database_pooled
    await asyncio.to_thread(ensure_postgres, url, catalog, may_create=may_create, pooled=pooled)
    return await PostgresLedger.open(
        url,
        catalog,
        lease_seconds=settings.lease_seconds,
        pooled=pooled,
        direct_url=settings.database_direct_url,
    )


async def open_rules(settings: Settings, domains: Domains, pipelines: Sequence[Pipeline]) -> Rulebook:
    return await Rulebook.open(
        domains,
        pipelines,
        path=settings.domain_policies_path,
        ground=ground(
            tokens=settings.rate_limit_tokens,
            interval=settings.rate_limit_interval_seconds,
            proxy_rest=settings.proxy_domain_cooldown_seconds,
        ),
        breaker=Breaker(settings.cb_window_size, settings.cb_failure_threshold, settings.cb_cooldown_seconds),
    )


async def open_proxies(
    settings: Settings, table: ProxyTable, guard: EgressGuard, clock: Clock, fetch: Fetch
) -> ProxyPool:
    addresses = [each.get_secret_value() for each in settings.proxy_endpoints]
    pool = ProxyPool(
        table,
        clock,
        guard,
        ProxyCheck(guard, clock, fetch=fetch, url=settings.proxy_check_url),
        given=given_proxies(addresses, settings.proxy_file),
        check_every=settings.proxy_health_check_interval_seconds,
    )
    await pool.open()
    return pool


async def open_browsers(settings: Settings, guard: EgressGuard, clock: Clock, proxies: ProxyPool) -> BrowserFetcher:
    """Open the browser pool. A browser is located and started only for the first page that needs one. Browsers that a
    killed process left behind are ended now."""
    launcher = ChromiumLauncher(settings.chromium, pids=settings.home / "pids", stealth=settings.browser_stealth)
    await launcher.clear_up()
    return BrowserFetcher(
        guard,
        Gate(guard),
        clock,
        launcher,
        limits=PoolLimits(
            size=settings.browser_pool_size,
            most=max(settings.browser_pool_max, settings.browser_pool_size),
            page_limit=settings.browser_page_limit,
            memory=settings.browser_memory_mb * 1024 * 1024,
        ),
        navigation_timeout=settings.navigation_timeout_ms / 1000,
        endpoints=proxies.endpoint,
    )


def logins(settings: Settings, fetch: Fetch, clock: Clock) -> Logins | None:
    if settings.backend_api_url is None:
        return None
    ttl, retries = settings.credential_cache_ttl_seconds, settings.credential_max_retries
    return Logins(CredentialClient(fetch, clock, settings.backend_api_url, ttl=ttl, retries=retries))


def secrets(settings: Settings, features: Iterable[Feature]) -> Callable[[str], str | None]:
    """Return the function that looks up a secret named in a request: our own secrets and those of every feature."""
    known: dict[str, SecretStr | None] = {SERVICE_KEY: settings.backend_service_key}
    for each in features:
        if each.secrets is not None:
            known.update(each.secrets.load()(settings))
    return {name: secret.get_secret_value() for name, secret in known.items() if secret}.get


def reference_loaders(settings: Settings, features: Iterable[Feature]) -> dict[str, Callable[[], Any]]:
    """Return the loaders of all features' reference data, by name."""
    loaders: dict[str, Callable[[], Any]] = {}
    for each in features:
        if each.references is not None:
            given = each.references.load()(settings)
            loaders.update(
                {name: _table_loader(settings, by) if isinstance(by, FromTable) else by for name, by in given.items()}
            )
    return loaders


def _table_loader(settings: Settings, wanted: FromTable) -> Callable[[], Any]:
    """Return the loader of reference data that is in a warehouse. Raises `Rejected` if no type of sink knows it."""
    name, _, table = wanted.source.partition(":")
    readers = {each.name: each.tables for each in all_sinks() if each.tables is not None}
    if name not in readers:
        raise Rejected(f"{wanted.source}: tables can be read from {', '.join(sorted(readers))}, not from {name}.")
    return lambda: wanted.make(readers[name].load()(settings, table, wanted.columns))
