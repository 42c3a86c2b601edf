"""Builds each part from the settings. Part of the composition root: only `app` uses it, and joins the parts."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from forager.app.features import all_features, all_sinks
from forager.app.machine import THIS_MACHINE, Machine
from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.errors import FieldError, Rejected, SealBroken, StoreMisplaced
from forager.core.http import Fetch
from forager.core.ledger import Ledger
from forager.core.pipeline import Breaker, Pipeline
from forager.core.secret import JobSecrets, KeyUser, Seal, Secret
from forager.core.states import ENDS, TaskState
from forager.core.storage import Storage
from forager.core.threads import in_daemon_thread
from forager.core.upkeep import Keep
from forager.engine.lanes.rules.precedence import ground
from forager.engine.lanes.rules.rulebook import Rulebook
from forager.fetch.browser.chromium import ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.browser.gate import Gate
from forager.fetch.browser.pool import PoolLimits
from forager.fetch.guard import EgressGuard
from forager.fetch.logins import SERVICE_KEY, CredentialClient, Logins
from forager.fetch.proxies.check import ProxyCheck
from forager.fetch.proxies.pool import ProxyPool, given_proxies
from forager.fetch.via import API_KEY as VIA_KEY
from forager.fetch.via import ViaFetcher, ViaService, checked_template
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import locate
from forager.ledger.schema.migrate import ensure_postgres, ensure_sqlite
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite.lock import has_store, no_store, usable_folder
from forager.ledger.tables.domains import Domains
from forager.ledger.tables.pages import BlobFolderTable
from forager.ledger.tables.proxies import ProxyTable
from forager.ledger.tables.via import ViaPurse
from forager.sdk.delivery import Publication
from forager.sdk.feature import Feature, FromTable
from forager.settings import Settings
from forager.sinks.kafka.settings import KafkaSettings
from forager.storage.folder import open_storage
from forager.storage.pages.folder import FILE, give_storage_id, make_folder_id, new_storage_id, read_folder_id
from forager.storage.pages.local import LocalBlobs
from forager.storage.pages.remote import RemoteBlobs
from forager.storage.settings import S3Address, S3Settings

TASKS_NEED_POSTGRES = (
    "FORAGER_KAFKA_TASKS needs PostgreSQL (FORAGER_DATABASE_URL): the embedded store belongs to one process, so that no"
    " Kafka worker could claim a task. Unset it: that process does the work itself."
)


def build_pipelines(settings: Settings, features: Iterable[Feature] | None = None) -> tuple[Pipeline, ...]:
    """Build the pipeline of every feature from its settings. Pipelines that a warehouse mirrors log every end of a
    task, if the settings configure a warehouse; those that publish their tasks log every new one, if Kafka workers do
    the work. Otherwise the log, and the engine, are spared these changes. Raises `Rejected` if settings do not fit."""
    mirrored = any(sink.mirrors is not None and sink.mirrors.load()(settings) for sink in all_sinks())
    offered = settings.of(KafkaSettings).kafka_tasks
    if offered and settings.database_url is None:
        raise Rejected(TASKS_NEED_POSTGRES, fields=[FieldError("kafka_tasks", "needs FORAGER_DATABASE_URL")])
    pipelines: list[Pipeline] = []
    for feature in all_features() if features is None else features:
        pipeline: Pipeline = feature.build.load()(settings)
        if mirrored and feature.mirror is not None:
            pipeline = replace(pipeline, logged_states=pipeline.logged_states | ENDS)
        if offered and _publishes_tasks(feature):
            pipeline = replace(pipeline, logged_states=pipeline.logged_states | {TaskState.READY})
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


async def open_ledger(
    settings: Settings, catalog: Catalog, clock: Clock, machine: Machine = THIS_MACHINE, *, may_create: bool = True
) -> Ledger:
    """Open the store that the settings name. Without `may_create`, raises `NotFound` if there is no embedded store in
    the data folder, and `StoreOutdated` if a PostgreSQL database has no tables."""
    if settings.database_url is None:
        path = settings.home / "ledger.db"
        if not may_create and not has_store(settings.home):
            raise no_store(settings.home)
        with usable_folder(settings.home):
            await asyncio.to_thread(ensure_sqlite, path, catalog)
        return await SqliteLedger.open(
            path,
            catalog,
            clock=clock,
            lease_seconds=settings.lease_seconds,
            faults=machine.faults,
            writer=machine.writer,
        )
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
        regions=settings.proxy_regions,
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


def via_price(settings: Settings) -> Decimal | None:
    """Return the price of a request through the unblocking service; None if a setting is missing."""
    capped = settings.via_max_usd_day is not None or settings.via_max_usd_month is not None
    return settings.via_price if settings.via_url is not None and capped else None


def via_purse(settings: Settings, database: Database, now_ms: Callable[[], Awaitable[int]]) -> ViaPurse | None:
    """Return what counts the money of the unblocking service; None if it is not configured."""
    price = via_price(settings)
    if price is None:
        return None
    return ViaPurse(database, now_ms, price, settings.via_max_usd_day, settings.via_max_usd_month)


def via_fetcher(settings: Settings, http: Fetch, guard: EgressGuard, purse: ViaPurse | None) -> ViaFetcher:
    """Return what sends requests through the unblocking service. Without a complete configuration it refuses them, so
    that no site that was to be reached through the service is reached directly."""
    if purse is None or settings.via_url is None:
        return ViaFetcher(http, guard, None)
    key = settings.via_api_key.get_secret_value() if settings.via_api_key is not None else None
    service = ViaService(
        checked_template(settings.via_url.get_secret_value()),
        key,
        settings.via_timeout_seconds,
        purse,
        settings.via_cost_header,
    )
    return ViaFetcher(http, guard, service)


def logins(settings: Settings, fetch: Fetch, clock: Clock) -> Logins | None:
    if settings.backend_api_url is None:
        return None
    ttl, retries = settings.credential_cache_ttl_seconds, settings.credential_max_retries
    return Logins(CredentialClient(fetch, clock, settings.backend_api_url, ttl=ttl, retries=retries))


def secrets(settings: Settings, features: Iterable[Feature]) -> Callable[[str], str | None]:
    """Return the function that looks up a secret named in a request: our own secrets and those of every feature."""
    known: dict[str, SecretStr | None] = {
        SERVICE_KEY: settings.backend_service_key,
        VIA_KEY: settings.via_api_key,
    }
    for each in features:
        if each.secrets is not None:
            known.update(each.secrets.load()(settings))
    return {name: secret.get_secret_value() for name, secret in known.items() if secret}.get


class JobTokens:
    """Implements `core.secret.JobSecrets`: a job's own secret, or one that a feature makes for the job."""

    def __init__(self, own: JobSecrets, sources: Sequence[JobSecrets]) -> None:
        self._own = own
        self._sources = sources

    async def of(self, job: int, name: str) -> Secret | None:
        found = await self._own.of(job, name)
        for source in self._sources if found is None else ():
            if (found := await source.of(job, name)) is not None:
                break
        return found


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
    """Return the loader of reference data that is in a warehouse. Raises `Rejected` if no type of sink has it."""
    name, _, table = wanted.source.partition(":")
    readers = {each.name: each.tables for each in all_sinks() if each.tables is not None}
    if name not in readers:
        raise Rejected(f"{wanted.source}: tables can be read from {', '.join(sorted(readers))}, not from {name}.")
    return lambda: wanted.make(readers[name].load()(settings, table, wanted.columns))


# Checks, before a process works, that its key and its store of pages are the ledger's.
#
# A process that does not fit would fail later, task by task: it could not open proxies and tokens that another machine
# has sealed, nor read pages that another machine has stored.


async def check_keys(seal: Seal, tables: Sequence[KeyUser]) -> None:
    """Raise `SealBroken`, with the remedy, if something in the ledger is sealed with a key that is not available
    here. What is not sealed at all needs no key."""
    used = frozenset[str]().union(*[await table.key_ids() for table in tables])
    if missing := sorted(seal.missing(used)):
        some = f"the key {missing[0]}" if len(missing) == 1 else f"the keys {', '.join(missing)}"
        raise SealBroken(
            f"Secrets in the ledger are sealed with {some}, which this process does not have. Set FORAGER_SECRET_KEY"
            " to the same keys on every machine, or copy secret.key from the data folder of the machine that sealed"
            " them. If a key is lost, remove what it sealed: `forager proxies remove`, `forager jobs cancel`."
        )


async def check_blob_folder(database: Database, folder: Path) -> None:
    """Raise `StoreMisplaced`, with the remedy, if the ledger's stored pages are in another folder than this one. The
    first folder becomes the ledger's. The embedded store is next to its pages and needs no check."""
    if database.dialect == "sqlite":
        return
    table = BlobFolderTable(database)
    own, wanted = await asyncio.to_thread(read_folder_id, folder), await table.get()
    if wanted is None:
        own = await asyncio.to_thread(make_folder_id, folder)
        wanted = await table.claim(own)
    if own != wanted:
        raise StoreMisplaced(
            f"The pages of this ledger are stored in another folder than {folder}. All processes of a ledger need the"
            " same one: mount it on this machine and set FORAGER_HOME to it, or set FORAGER_BLOBS if the others do. If"
            " the other folder is lost, `forager blobs adopt` makes this one the ledger's."
        )


async def check_blob_storage(database: Database, storage: Storage, where: str) -> None:
    """Raise `StoreMisplaced`, with the remedy, unless this S3 address has the pages of this ledger and of no other.
    The first address becomes the ledger's.

    The ledger notes the address first. So an address that two ledgers are given belongs to the first, and after a crash
    between the two notes the next start writes the second one.
    """
    table = BlobFolderTable(database)
    wanted = await table.get() or await table.claim(new_storage_id(where))
    own = None
    if wanted.partition("@")[2] == where:
        own = await asyncio.to_thread(give_storage_id, storage, wanted)
    if own != wanted:
        raise StoreMisplaced(
            f"{where} has not the pages of this ledger: these are stored elsewhere, or it has those of another ledger."
            " All processes of a ledger need the same FORAGER_BLOBS, and each ledger needs its own. To use this address"
            " from now on, run `forager blobs adopt`; pages that are not in it are fetched again."
        )


async def adopt_blob_folder(database: Database, folder: Path) -> str:
    """Make this folder the one in which the ledger's pages are stored, and return its id. Processes with another
    folder are refused at their next start; pages stored there are fetched again when a task needs them."""
    made = await asyncio.to_thread(make_folder_id, folder)
    await BlobFolderTable(database).replace(made)
    return made


async def adopt_blob_storage(database: Database, storage: Storage, where: str) -> str:
    """Make this S3 address the one in which the ledger's pages are stored, and return its id."""
    made = await asyncio.to_thread(give_storage_id, storage, new_storage_id(where))
    if made is None:
        raise StoreMisplaced(f"The id that was written to {where} is gone. Try again.")
    if made.partition("@")[2] != where:
        raise StoreMisplaced(f"{where} has a copy of other pages: remove its file `{FILE}`, then try again.")
    await BlobFolderTable(database).replace(made)
    return made


# The store of pages that the settings name: the data folder, or an S3 address.


def open_blobs(
    settings: Settings, database: Database, clock: Clock, machine: Machine = THIS_MACHINE
) -> LocalBlobs | RemoteBlobs:
    """Return the store. Nothing is opened or sent yet. Raises `Rejected` if the client library of S3 is missing."""
    keep: dict[str, Any] = {"grace": settings.blob_grace_hours, "days": settings.blob_days}
    if settings.blobs is None:
        return machine.blobs(blob_folder(settings), clock, **keep)
    storage, where = _storage(settings, settings.blobs)
    return RemoteBlobs(storage, where, clock, partial(check_blob_storage, database, storage, where), **keep)


async def check_blobs(settings: Settings, database: Database) -> None:
    """Raise `StoreError`, with the remedy, if the pages of this ledger are stored elsewhere."""
    if settings.blobs is None:
        await check_blob_folder(database, blob_folder(settings))
    else:
        await check_blob_storage(database, *_storage(settings, settings.blobs))


async def adopt_blobs(settings: Settings, database: Database) -> str:
    """Make this store the ledger's, and return its id."""
    if settings.blobs is None:
        return await adopt_blob_folder(database, blob_folder(settings))
    return await adopt_blob_storage(database, *_storage(settings, settings.blobs))


def _storage(settings: Settings, address: S3Address) -> tuple[Storage, str]:
    return open_storage(address, settings.of(S3Settings)), str(address)


# Reference data that pipelines need, such as the table of ZIP codes: loaded at first use and kept.


class References:
    """Reference data by name. Each is loaded once, in a thread, because the tables are big. A process that is stopped
    meanwhile does not wait for the thread."""

    def __init__(self, loaders: Mapping[str, Callable[[], Any]]) -> None:
        self._loaders = loaders
        self._loaded: dict[str, Any] = {}
        self._loading = asyncio.Lock()

    async def get(self, name: str) -> Any:
        """Return reference data, after loading it if this is the first use."""
        async with self._loading:
            if name not in self._loaded:
                self._loaded[name] = await in_daemon_thread(self._loaders[name], name=f"loads {name}")
                gc.freeze()  # the table stays in memory, so the garbage collector need not scan it
            return self._loaded[name]

    async def load(self, names: Iterable[str]) -> dict[str, Any]:
        """Return several by name."""
        return {name: await self.get(name) for name in names}
