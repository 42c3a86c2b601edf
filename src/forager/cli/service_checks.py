"""The checks of `forager doctor` of what is beside the store: Celery's broker, Kafka, Elasticsearch; optional packages;
Google's credentials; sinks.

A server is only connected to; nothing is sent. URLs may have a password, so only host and port are shown."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from forager.kit.cli.finding import Finding

if TYPE_CHECKING:
    from forager.settings import Settings

BROKER_PORTS = {"redis": 6379, "rediss": 6379, "amqp": 5672, "pyamqp": 5672, "amqps": 5671}
KAFKA_PORT = 9092
WEB_PORTS = {"http": 80, "https": 443}
SECONDS = 3.0


def check_services(settings: "Settings") -> Iterator[Finding]:
    """Yield a finding for each server that the settings name."""
    from forager.sinks.elasticsearch.settings import ElasticsearchSettings
    from forager.sinks.kafka.settings import KafkaSettings

    remedy = "Start the broker, or correct FORAGER_BROKER_URL, such as redis://127.0.0.1:6379/0."
    for url in settings.broker_url.get_secret_value().split(";") if settings.broker_url else ():
        place = _place(url, BROKER_PORTS)
        if place is None:
            yield Finding("broker", "problem", "FORAGER_BROKER_URL is not a valid URL of a broker", remedy)
        else:
            yield _tried("broker", place, remedy)
    remedy = "Start Kafka, or correct FORAGER_KAFKA_BROKERS, such as one:9092,two:9092."
    for broker in settings.of(KafkaSettings).kafka_brokers:
        place = _place(f"kafka://{broker.rpartition('://')[2]}", {"kafka": KAFKA_PORT})
        if place is None:
            yield Finding("kafka", "problem", f"{broker[:100]!r} is not host:port", remedy)
        else:
            yield _tried("kafka", place, remedy)
    search = settings.of(ElasticsearchSettings).elasticsearch_url
    if search is not None and (place := _place(search, WEB_PORTS)) is not None:
        yield _tried("search", place, "Start Elasticsearch or OpenSearch, or correct FORAGER_ELASTICSEARCH_URL.")


EXTRAS = {
    "bigquery": ("google.cloud.bigquery", "the mirror in BigQuery"),
    "celery": ("celery", "Celery workers"),
    "kafka": ("confluent_kafka", "Kafka sinks and workers"),
    "parquet": ("pyarrow", "files in Parquet"),
    "postgres": ("asyncpg", "a ledger in PostgreSQL"),
    "s3": ("obstore", "files and pages in S3"),
    "text": ("trafilatura", "the best main text of pages; without it, simple rules find it"),
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
    """Yield a problem for each sink that fails or cannot be delivered, as the API lists it."""
    failing = [each for each in sinks if each["problem"] or each["failures"]]
    for each in failing:
        since = f", since {each['failing_since']}" if each["failing_since"] else ""
        waits = f", {each['waiting']:,} messages wait" if each["waiting"] else ""
        message = each["problem"] or f"it fails{since}{waits}: {each['error']}"
        yield Finding(f"sink {each['name']}", "problem", message, f"See `forager sinks show {each['name']}`.")
    if not failing:
        yield Finding("sinks", "ok", f"{len(sinks)}, none of them fails")


def _needed(settings: "Settings") -> dict[str, str]:
    """Return the extras that these settings need, each with the setting that does."""
    from forager.sinks.bigquery.settings import BigQuerySettings
    from forager.sinks.files.wiring import FilesSettings
    from forager.sinks.kafka.settings import KafkaSettings
    from forager.storage.address import S3Address

    in_s3 = {"FORAGER_BLOBS": settings.blobs, "FORAGER_ARCHIVE": settings.archive}
    wanted = {
        "bigquery": settings.of(BigQuerySettings).bigquery_project_id and "FORAGER_BIGQUERY_PROJECT_ID",
        "celery": settings.broker_url and "FORAGER_BROKER_URL",
        "kafka": settings.of(KafkaSettings).kafka_brokers and "FORAGER_KAFKA_BROKERS",
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


def _place(url: str, ports: dict[str, int]) -> tuple[str, int] | None:
    """Return host and port of a URL; None if it has none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or ports.get(parts.scheme)
    except ValueError:
        return None
    return (host, port) if host and port else None


def _tried(check: str, place: tuple[str, int], remedy: str) -> Finding:
    shown = f"{place[0]}:{place[1]}"
    try:
        socket.create_connection(place, timeout=SECONDS).close()
    except OSError as error:
        return Finding(check, "problem", f"{shown} does not answer ({error.strerror or error})", remedy)
    return Finding(check, "ok", f"{shown} answers")
