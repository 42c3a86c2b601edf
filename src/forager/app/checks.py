"""The checks of `forager doctor`. Every check returns its findings, never raises, and changes nothing.

A problem keeps Forager from working; a note is only information.
"""

import json
import os
import platform
import shutil
import socket
import sqlite3
import stat
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from forager import __version__
from forager.core.errors import ForagerError, Rejected, StoreFull, StoreUnavailable
from forager.core.hosts import host_of
from forager.sdk.cli.client import KEY_HEADER
from forager.sdk.cli.render import moment, near, some
from forager.sdk.feature import Finding

if TYPE_CHECKING:
    from forager.settings import Settings
    from forager.storage.settings import S3Address


# The checks of `forager doctor` of settings that belong together or name a file: the policy file, the proxies, the
# credential backend.


POLICIES = "SCRAPER_DOMAIN_POLICIES_PATH"


def check_files(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for the policy file, the proxies and the credential backend, each if the settings name it."""
    if settings.domain_policies_path is not None:
        yield _policies(settings)
    if settings.proxy_endpoints or settings.proxy_file is not None:
        yield _proxies(settings)
    if settings.via_url is not None:
        yield _via(settings)
    if settings.backend_api_url is not None:
        yield _backend(settings.backend_api_url, has_key=settings.backend_service_key is not None)


def _policies(settings: "Settings") -> Finding:
    from forager.engine.lanes.rules.policy_file import parse_policies

    path, remedy = settings.domain_policies_path, f"Correct the file, or {POLICIES}; docs/politeness.md has an example."
    assert path is not None  # noqa: S101 - the caller has checked it
    try:
        found = parse_policies(path.read_text("utf-8"), path.name)
    except OSError as error:
        return Finding("policy file", "problem", f"{path} cannot be read: {error.strerror}", remedy)
    except UnicodeDecodeError:
        return Finding("policy file", "problem", f"{path} is not UTF-8 text", remedy)
    except Rejected as error:
        return Finding("policy file", "problem", error.message, remedy)
    return Finding("policy file", "ok", f"{path}, {some(len(found.domains), 'domain')}")


def _proxies(settings: "Settings") -> Finding:
    from forager.fetch.proxies.pool import given_proxies

    try:
        found = given_proxies([each.get_secret_value() for each in settings.proxy_endpoints], settings.proxy_file)
    except Rejected as error:
        return Finding("proxies", "problem", error.message, "docs/proxies.md has the forms.")
    return Finding("proxies", "ok", f"{some(len(found), 'proxy', 'proxies')} in the settings")


def _via(settings: "Settings") -> Finding:
    from forager.app.wiring import via_price
    from forager.fetch.via import checked_template

    name, remedy = "unblocking service", "docs/proxies.md has an example."
    assert settings.via_url is not None  # noqa: S101 - the caller has checked it
    try:
        address = checked_template(settings.via_url.get_secret_value())
    except Rejected as error:
        return Finding(name, "problem", error.message, remedy)
    price = via_price(settings)
    if price is None:
        wanted = "FORAGER_VIA_PRICE and one of FORAGER_VIA_MAX_USD_DAY and FORAGER_VIA_MAX_USD_MONTH"
        return Finding(name, "problem", "it has no price or no cap, so nothing is sent to it", f"Set {wanted}.")
    return Finding(name, "ok", f"{host_of(address)}, ${price} a request")


def _backend(url: str, *, has_key: bool) -> Finding:
    from forager.fetch.logins import safe_url

    remedy = "docs/credentials.md has an example."
    try:
        safe_url(url)
    except Rejected as error:
        return Finding("credential backend", "problem", error.message, remedy)
    if not has_key:
        return Finding("credential backend", "problem", "FORAGER_BACKEND_SERVICE_KEY is not set", f"Set it; {remedy}")
    return Finding("credential backend", "ok", f"logins are fetched from {url}")


# The check of `forager doctor` of the places in S3 that settings name: can they be listed with these keys?


REMEDY = "Correct the address, or the FORAGER_S3_… settings; the bucket must exist."


def check_storage(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for each S3 address. Lists one page of it; writes nothing."""
    from forager.sinks.files.settings import FilesSettings
    from forager.storage.settings import S3Address

    named = {"FORAGER_BLOBS": settings.blobs, "FORAGER_ARCHIVE": settings.archive}
    for name, address in named.items():
        if isinstance(address, S3Address):
            yield _listed(name, address, settings)
    for address in settings.of(FilesSettings).files_s3:
        yield _listed("FORAGER_FILES_S3", address, settings)


def _listed(name: str, address: "S3Address", settings: "Settings") -> Finding:
    from forager.storage.s3 import S3
    from forager.storage.settings import S3Settings

    try:
        next(S3(address, settings.of(S3Settings)).walk(""), None)
    except ForagerError as error:
        return Finding(name, "problem", error.message, REMEDY)
    return Finding(name, "ok", f"{address} can be listed")


# The checks of `forager doctor` of everything but the store: Celery's broker, Kafka, Elasticsearch; optional packages;
# Google's credentials; sinks.
#
# A server is only connected to; nothing is sent. URLs may have a password, so only host and port are shown.


BROKER_PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "pyamqp": 5672, "amqps": 5671}
KAFKA_PORT = 9092
WEB_PORTS = {"http": 80, "https": 443}
SECONDS = 3.0


def check_services(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for each server that the settings name."""
    from forager.sinks.clickhouse.settings import ClickHouseSettings
    from forager.sinks.elasticsearch.settings import ElasticsearchSettings
    from forager.sinks.kafka.settings import KafkaSettings

    remedy = "Start the broker, or correct FORAGER_BROKER_URL, such as redis://127.0.0.1:6379/0."
    for url in settings.broker_url.get_secret_value().split(";") if settings.broker_url else ():
        endpoint = _endpoint(url, BROKER_PORTS)
        if endpoint is None:
            yield Finding("broker", "problem", "FORAGER_BROKER_URL is not a valid URL of a broker", remedy)
        else:
            yield _tried("broker", endpoint, remedy)
    remedy = "Start Kafka, or correct FORAGER_KAFKA_BROKERS, such as one:9092,two:9092."
    for broker in settings.of(KafkaSettings).kafka_brokers:
        endpoint = _endpoint(f"kafka://{broker.rpartition('://')[2]}", {"kafka": KAFKA_PORT})
        if endpoint is None:
            yield Finding("kafka", "problem", f"{broker[:100]!r} is not host:port", remedy)
        else:
            yield _tried("kafka", endpoint, remedy)
    search = settings.of(ElasticsearchSettings).elasticsearch_url
    if search is not None and (endpoint := _endpoint(search, WEB_PORTS)) is not None:
        yield _tried("search", endpoint, "Start Elasticsearch or OpenSearch, or correct FORAGER_ELASTICSEARCH_URL.")
    columns = settings.of(ClickHouseSettings).clickhouse_url
    if columns is not None and (endpoint := _endpoint(columns, WEB_PORTS)) is not None:
        yield _tried("clickhouse", endpoint, "Start ClickHouse, or correct FORAGER_CLICKHOUSE_URL.")


EXTRAS = {
    "bigquery": ("google.cloud.bigquery", "the mirror in BigQuery"),
    "celery": ("celery", "Celery workers"),
    "documents": ("pypdf", "PDF and DOCX files as pages"),
    "dlt": ("dlt", "Forager as a source of dlt"),
    "duckdb": ("duckdb", "sinks and exports to DuckDB files"),
    "excel": ("xlsxwriter", "exports for Excel"),
    "fields": ("re2", "fields of your own with patterns or XPath"),
    "kafka": ("confluent_kafka", "Kafka sinks and workers"),
    "mcp": ("mcp", "tools for agents"),
    "notify": ("apprise", "channels for alerts"),
    "otel": ("opentelemetry.exporter.otlp.proto.http", "OpenTelemetry"),
    "parquet": ("pyarrow", "files in Parquet"),
    "postgres": ("asyncpg", "a ledger in PostgreSQL"),
    "prefect": ("prefect", "flows of Prefect"),
    "s3": ("obstore", "files and pages in S3"),
}
"""Optional packages by extra: a module of each, and what needs it. The browser has a check of its own."""


def check_extras(settings: "Settings") -> Iterator[Finding]:
    """Yield a problem for each package that the settings need and that is missing, and one line about the others."""
    needed = _needed(settings)
    missing = [extra for extra, (module, _) in EXTRAS.items() if not _has(module)]
    for extra in missing:
        if extra in needed:
            yield Finding(
                f"extra {extra}",
                "problem",
                f"not installed, but {needed[extra]} is set: it is for {EXTRAS[extra][1]}",
                f"Run: pip install 'forager-data[{extra}]'",
            )
    others = [extra for extra in missing if extra not in needed]
    if others:
        about = "; ".join(f"{extra} ({EXTRAS[extra][1]})" for extra in others)
        remedy = f"To use them: pip install 'forager-data[{','.join(others)}]'"
        yield Finding("extras", "note", f"not installed: {about}", remedy)
    elif not missing:
        yield Finding("extras", "ok", "all optional packages are installed")


def check_credentials(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding about the file of Google's credentials, if the settings name one."""
    from forager.sinks.bigquery.settings import BigQuerySettings
    from forager.sinks.bigquery.wiring import CREDENTIALS_REMEDY, credentials_problem

    path = settings.of(BigQuerySettings).google_application_credentials
    if path is None:
        return
    problem = credentials_problem(settings)
    if problem is not None:
        yield Finding("google credentials", "problem", problem, CREDENTIALS_REMEDY)
    else:
        yield Finding("google credentials", "ok", str(path))


def check_sinks(sinks: "list[dict[str, Any]]") -> Iterator[Finding]:
    """Yield a problem for each sink that fails or cannot be delivered, and a note for each that refused changes.

    `sinks` is the list of the API. A sink that was configured once and is no longer keeps its last failure in the
    ledger: it is a note, since nothing is delivered to it.
    """
    findings = [finding for each in sinks if (finding := _sink(each)) is not None]
    yield from findings
    if not findings:
        yield Finding("sinks", "ok", f"{some(len(sinks), 'sink')}, none of them fails")


def _sink(sink: "dict[str, Any]") -> Finding | None:
    """Return what is wrong with a sink: since when, its last error and the remedy; None if nothing is."""
    name, check = sink["name"], f"sink {sink['name']}"
    if sink["problem"]:
        remedy = f"Correct it, and restart Forager; or remove the sink: `forager sinks remove {name}`."
        return Finding(check, "problem", f"cannot be delivered: {sink['problem']}", remedy)
    if sink["failures"]:
        since = f" since {moment(sink['failing_since'])} UTC" if sink["failing_since"] else ""
        waits = f", {some(sink['waiting'], 'message waits', 'messages wait')}" if sink["waiting"] else ""
        message = f"failing{since}{waits}. Last error: {sink['error'] or 'none stored yet'}"
        if not sink["configured"]:
            return Finding(
                check, "note", f"{message} No setting here configures it.", f"`forager sinks remove {name}`."
            )
        remedy = (
            "Start or correct the receiver; what waits is then delivered without a command. `forager sinks show"
            f" {name}` has the next try, `forager sinks pause {name}` stops the tries."
        )
        return Finding(check, "problem", message, remedy)
    if sink["set_aside"]:
        remedy = f"`forager sinks refused {name}` shows why; then `forager sinks retry {name}`, or discard them."
        return Finding(check, "note", f"it refused {some(sink['set_aside'], 'change')}", remedy)
    return None


def _needed(settings: "Settings") -> dict[str, str]:
    """Return the extras that these settings need, each with the setting that does."""
    from forager.sinks.bigquery.settings import BigQuerySettings
    from forager.sinks.duckdb.settings import DuckDBSettings
    from forager.sinks.files.settings import FilesSettings
    from forager.sinks.kafka.settings import KafkaSettings
    from forager.storage.settings import S3Address

    in_s3 = {"FORAGER_BLOBS": settings.blobs, "FORAGER_ARCHIVE": settings.archive}
    wanted = {
        "bigquery": settings.of(BigQuerySettings).bigquery_project_id and "FORAGER_BIGQUERY_PROJECT_ID",
        "celery": settings.broker_url and "FORAGER_BROKER_URL",
        "duckdb": settings.of(DuckDBSettings).duckdb_folder and "FORAGER_DUCKDB_FOLDER",
        "kafka": settings.of(KafkaSettings).kafka_brokers and "FORAGER_KAFKA_BROKERS",
        "otel": settings.otel_endpoint and "FORAGER_OTEL_ENDPOINT",
        "postgres": settings.database_url and "FORAGER_DATABASE_URL",
        "s3": settings.of(FilesSettings).files_s3 and "FORAGER_FILES_S3",
    }
    wanted["s3"] = wanted["s3"] or next((name for name, at in in_s3.items() if isinstance(at, S3Address)), None)
    return {extra: name for extra, name in wanted.items() if isinstance(name, str) and name}


def _has(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def _endpoint(url: str, ports: dict[str, int]) -> tuple[str, int] | None:
    """Return host and port of a URL; None if it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or ports.get(parts.scheme)
    except ValueError:
        return None
    return (host, port) if host and port else None


def _tried(check: str, endpoint: tuple[str, int], remedy: str) -> Finding:
    shown = f"{endpoint[0]}:{endpoint[1]}"
    try:
        socket.create_connection(endpoint, timeout=SECONDS).close()
    except OSError as error:
        return Finding(check, "problem", f"{shown} does not answer ({error.strerror or error})", remedy)
    return Finding(check, "ok", f"{shown} answers")


OLDEST_SQLITE = (3, 38, 0)
"""The first SQLite version with the operators that the views use."""
LITTLE_ROOM = 1 << 30
NO_ROOM = 100 << 20
KEY_FILES = ("service.key", "secret.key")
OK = 200
SILENT = "answering"
"""The check that fails if a Forager should be running but does not respond."""
MEND_SERVER = "Start the database, or correct FORAGER_DATABASE_URL."


def examine(load: "Callable[[], Settings]") -> list[Finding]:
    """Run every check, each after those that it depends on."""
    findings = [_python(), _sqlite()]
    try:
        settings = load()
    except Rejected as error:
        wrong = "; ".join(f"{each.field}: {each.message}" for each in error.fields) or error.message
        return [
            *findings,
            Finding("settings", "problem", wrong, "Correct it in the environment, .env or forager.toml."),
        ]
    findings.append(Finding("settings", "ok", "valid"))
    machine = (_folder, _disk, _keys, _owner, _store, check_services, _port)
    beside = (check_extras, check_credentials, check_files, check_storage)
    for check in (*machine, _features, _chromium, *beside):
        findings.extend(check(settings))
    return findings


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()}, Forager {__version__}")


def _sqlite() -> Finding:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding(
            "sqlite",
            "problem",
            f"{sqlite3.sqlite_version} is older than 3.38",
            "Use a Python with a newer SQLite, or PostgreSQL (FORAGER_DATABASE_URL).",
        )
    return Finding("sqlite", "ok", sqlite3.sqlite_version)


def _folder(settings: "Settings") -> Iterator[Finding]:
    home = settings.home
    nearest = next(path for path in (home, *home.absolute().parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "data folder",
            "problem",
            f"{nearest} cannot be written by this user",
            "Change its owner, or set FORAGER_HOME to another folder.",
        )
    elif home.exists():
        yield Finding("data folder", "ok", near(home))
    else:
        yield Finding("data folder", "ok", f"{near(home)} (made on the first start)")


def _disk(settings: "Settings") -> Iterator[Finding]:
    nearest = next(path for path in (settings.home, *settings.home.absolute().parents) if path.exists())
    free = shutil.disk_usage(nearest).free
    room = f"{free / (1 << 30):,.1f} GB free"
    if free < NO_ROOM:
        yield Finding("disk", "problem", room, "Free some room: a ledger that cannot grow takes no work.")
    elif free < LITTLE_ROOM:
        yield Finding("disk", "note", room, "A job of 100,000 queries takes about 1 GB.")
    else:
        yield Finding("disk", "ok", room)


def _keys(settings: "Settings") -> Iterator[Finding]:
    for path in (settings.home / name for name in KEY_FILES):
        if not path.exists():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            yield Finding(path.name, "problem", f"others can read it (mode {mode:o})", f"Run: chmod 600 {near(path)}")
        else:
            yield Finding(path.name, "ok", f"for its owner alone (mode {mode:o})")


def _owner(settings: "Settings") -> Iterator[Finding]:
    from forager.secrets.service_key import service_key_for

    try:
        key = service_key_for(settings.home, settings.service_key)
    except ForagerError:  # the check of the key files reports it; without the key, details are left out
        key = ""
    if settings.api_url is not None:
        yield from _answers("the Forager that commands go to", settings.api_url, key)
    if settings.database_url is not None:
        return
    from forager.ledger.sqlite.lock import read_owner

    owner = read_owner(settings.home / "lock")
    if owner is None:
        yield Finding("running", "ok", "no process has the store open; commands open it themselves")
    elif owner.url is None:
        yield Finding(
            "running",
            "note",
            f"process {owner.pid} has the store open without an API, so other commands must wait for it",
            "Wait until it has ended. To run several commands at once, start `forager up` first.",
        )
    else:
        yield from _answers(f"process {owner.pid}", owner.url, key)


def _answers(who: str, url: str, key: str) -> Iterator[Finding]:
    """Yield whether a running Forager is ready, and each thing that keeps its health from being `ok`.

    Stalled sinks are left to `check_sinks`, which has their errors and remedies.
    """
    try:
        code, ready = _asked(f"{url}/readiness", key)
        _, health = _asked(f"{url}/health", key)
    except (OSError, HTTPException) as error:
        yield Finding(SILENT, "problem", f"{url} does not answer ({error})", f"Start {who}, or look at its log.")
        return
    if code == OK:
        yield Finding("running", "ok", f"{who} answers at {url}")
    else:
        reason = ready.get("reason") or f"it answered {code}"
        yield Finding("running", "problem", f"{url} is not ready: {reason}", "See its log, and the other lines here.")
    if health.get("trouble"):
        yield Finding("work", "problem", f"no work is done: {health['trouble']}", "See the log of `forager up`.")
    if health.get("worker") == "stopped":
        yield Finding("work", "problem", "no worker runs in it", "Restart `forager up`; its log has the reason.")
    for setting, reason in (health.get("refused_key_errors") or {}).items():
        yield Finding(setting, "problem", reason, f"Correct {setting}, and restart Forager.")


def _asked(url: str, key: str) -> tuple[int, dict[str, Any]]:
    """Return the status and the `data` of an answer. Raises `OSError` or `HTTPException` if there is none."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {KEY_HEADER: key} if key else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=5) as answer:  # noqa: S310 - the URL of our own lock file
            code, body = answer.status, answer.read()
    except HTTPError as error:  # an error such as 503 has a body as well
        code, body = error.code, error.read()
    try:
        data = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError):  # a proxy in front of it answered
        data = None
    return code, data if isinstance(data, dict) else {}


def _store(settings: "Settings") -> Iterator[Finding]:
    from forager.app.wiring import build_pipelines
    from forager.ledger.catalog import Catalog
    from forager.ledger.schema import migrate
    from forager.ledger.schema.connect import REMEDY, is_behind_pooler, locate
    from forager.ledger.sqlite.lock import read_owner

    path = settings.home / "ledger.db"
    embedded = settings.database_url is None
    if embedded and not path.exists():
        yield Finding("store", "ok", f"{near(path)} (made on the first start)")
        return
    if embedded and read_owner(settings.home / "lock") is not None:
        yield Finding("store", "ok", f"{near(path)}, {_size(path)}; its owner checked the schema when it started")
        return
    answers = f"PostgreSQL answers{' through a connection pooler' if settings.database_pooled else ''}"
    where = f"{near(path)}, {_size(path)}" if embedded else answers
    try:
        store = locate(settings.database_url, settings.database_schema) if settings.database_url else path
        if not embedded and not settings.database_pooled and is_behind_pooler(store):
            yield Finding("store", "problem", "a connection pooler is between Forager and PostgreSQL", REMEDY)
            return
        stands = migrate.current(store)
        if not stands:
            yield Finding("store", "ok", f"{where}, empty (the schema is made on the first start)")
            return
        migrate.check(store, Catalog(build_pipelines(settings)))
        yield Finding("store", "ok", f"{where}, schema {', '.join(stands)}")
    except StoreFull as error:
        yield Finding("store", "problem", error.message)
    except StoreUnavailable as error:
        yield Finding("store", "problem", error.message, _mend_file(path) if embedded else MEND_SERVER)
    except ForagerError as error:
        yield Finding("store", "problem", error.message)


def _mend_file(path: Path) -> str:
    return (
        f"This user must be able to read and write {near(path)}. If it is damaged, restore a copy of it, or move it"
        f" away (with {path.name}-wal and {path.name}-shm): the next start makes an empty one."
    )


def _port(settings: "Settings") -> Iterator[Finding]:
    from forager.ledger.sqlite.lock import read_owner

    if settings.port == 0 or read_owner(settings.home / "lock") is not None:
        return
    try:
        with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((settings.host, settings.port))
    except OSError as error:
        at = f"{settings.host}:{settings.port}"
        remedy = "`forager up` needs another: set FORAGER_PORT, or use --port."
        yield Finding("port", "note", f"{at} cannot be used ({error.strerror})", remedy)


def _features(settings: "Settings") -> Iterator[Finding]:
    """Run the checks that each pipeline declares."""
    from forager.app.features import all_features

    for feature in all_features():
        if feature.checks is not None:
            yield from feature.checks.load()(settings)


def _chromium(settings: "Settings") -> Iterator[Finding]:
    """Report a missing browser as a note, not as a problem: only pipelines that visit pages need one."""
    from importlib.util import find_spec

    from forager.core.errors import Unconfigured
    from forager.fetch.browser.chromium import find_chromium

    try:
        path = find_chromium(settings.chromium)
    except Unconfigured as error:
        problem, _, remedy = error.message.partition(". ")
        yield Finding("chromium", "problem" if settings.chromium else "note", problem, remedy)
        return
    if find_spec("playwright") is None:
        remedy = "Install it to visit pages with a browser: pip install 'forager-data[browser]'."
        yield Finding("chromium", "note", f"{path}, but Playwright is not installed", remedy)
    else:
        most = settings.browser_pool_max
        yield Finding("chromium", "ok", f"{path}, at most {most} at once")


def _size(path: Path) -> str:
    return f"{path.stat().st_size / (1 << 20):,.1f} MB"
