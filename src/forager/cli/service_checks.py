"""The checks of `forager doctor` of the servers beside the store: Celery's broker, Kafka, Elasticsearch. Each is only
connected to; nothing is sent. URLs may have a password, so only host and port are shown."""

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
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
