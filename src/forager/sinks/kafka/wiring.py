"""How the Kafka sink is built from its settings. The client library is an extra, and loaded only if brokers are set."""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forager.core.errors import Rejected
from forager.core.sink import Sink, SinkRow
from forager.kit.publication import Publication
from forager.kit.service import SinkService
from forager.sinks.kafka.records import TopicOptions, publication_of
from forager.sinks.kafka.settings import KafkaSettings

if TYPE_CHECKING:
    from forager.sinks.kafka.cluster import Cluster

CHECK_SECONDS = 3.0
OWN = "kafka"
"""The sink that the settings ask for."""


def from_settings(service: SinkService) -> SinkRow | None:
    """Return the sink `kafka`, which publishes what pipelines publish, if brokers are set."""
    return SinkRow(OWN, "kafka") if service.settings.of(KafkaSettings).kafka_brokers else None


def build(service: SinkService, row: SinkRow) -> Sink:
    """Build a sink. Raises `Rejected` if brokers, the client library or the log-in are missing."""
    settings = service.settings.of(KafkaSettings)
    if not settings.kafka_brokers:
        raise Rejected("A sink of the type kafka needs brokers: set FORAGER_KAFKA_BROKERS.")
    cluster = cluster_of(settings)
    from forager.sinks.kafka.sink import KafkaSink  # the client is there, or the cluster could not be described

    own = row.created_at is None and row.name == OWN
    return KafkaSink(
        cluster,
        service.publications if own else _everything(service, row),
        service.ledger,
        sink=row.name,
        name=settings.kafka_name if own else f"{settings.kafka_name}-{row.name}",
        pipelines=row.pipelines,
        again=not own,
        prefix=settings.kafka_topic_prefix,
        partitions=settings.kafka_partitions,
        tasks=own and settings.kafka_tasks,
    )


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Look whether one of the brokers answers. It is only connected to."""
    problems = []
    for broker in service.settings.of(KafkaSettings).kafka_brokers:
        host, _, port = broker.rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CHECK_SECONDS).close()
        except (OSError, ValueError) as error:
            problems.append(f"{broker} does not answer now ({error}); changes wait until it does")
        else:
            return []
    return problems


def cluster_of(settings: KafkaSettings) -> "Cluster":
    """Return the cluster that the settings name. Raises `Rejected` if brokers, the client library or the log-in are
    missing."""
    if not settings.kafka_brokers:
        raise Rejected("Kafka needs brokers: set FORAGER_KAFKA_BROKERS.")
    try:
        from forager.sinks.kafka.cluster import Cluster
    except ImportError as error:
        raise Rejected(
            "FORAGER_KAFKA_BROKERS is set, but the Kafka client is not installed: pip install 'forager-data[kafka]'"
        ) from error
    return Cluster(",".join(settings.kafka_brokers), settings.kafka_timeout_seconds, _security(settings))


def _everything(service: SinkService, row: SinkRow) -> dict[str, Publication]:
    """By pipeline: what publishes the changes that a row wants."""
    records = {record.kind for pipeline in service.pipelines.values() for record in pipeline.records}
    publication = publication_of(row.kinds or frozenset({"job", "task", *records}), TopicOptions(**row.options))
    return dict.fromkeys([*service.pipelines, ""], publication)  # a change that no job caused has no pipeline


def _security(settings: KafkaSettings) -> dict[str, str]:
    given: dict[str, str] = {"security.protocol": settings.kafka_security}
    if settings.kafka_security.startswith("sasl"):
        if settings.kafka_username is None or settings.kafka_password is None:
            raise Rejected("FORAGER_KAFKA_SECURITY signs in: set FORAGER_KAFKA_USERNAME and FORAGER_KAFKA_PASSWORD.")
        given["sasl.mechanism"] = settings.kafka_sasl_mechanism
        given["sasl.username"] = settings.kafka_username
        given["sasl.password"] = settings.kafka_password.get_secret_value()
    if settings.kafka_ca_file is not None:
        given["ssl.ca.location"] = str(settings.kafka_ca_file)
    return given
