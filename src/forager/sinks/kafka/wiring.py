"""Builds the Kafka sink from its settings. The client library is an extra, and loaded only if brokers are set."""

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.core.change import Change
from forager.core.errors import Rejected
from forager.core.sink import Sink, SinkRow
from forager.sdk.delivery import Publication, PublishedMessage, encodable
from forager.sdk.service import SinkService
from forager.sinks.kafka.settings import KafkaSettings

if TYPE_CHECKING:
    from forager.sinks.kafka.cluster import KafkaCluster


# Any kind of change in a Kafka topic: what a row of the type `kafka` publishes.


TOPIC_NAME = r"^[A-Za-z0-9._-]{1,200}$"
OP, KIND, VERSION = "forager-op", "forager-kind", "forager-version"
"""Headers of every message, besides the number of its change."""


class TopicOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: Annotated[str, Field(pattern=TOPIC_NAME)] | None = Field(
        default=None, description="One topic for everything (default: a topic for each kind, with its name)."
    )
    key: Literal["record", "job"] = Field(
        default="record", description="Messages with the same key keep their order: by `record` or by `job`."
    )


def publication_of(kinds: frozenset[str], options: TopicOptions) -> Publication:
    """Return what publishes every change of these kinds, whole, as the API shows it."""

    def message(change: Change) -> PublishedMessage:
        by_job = options.key == "job" and change.job is not None
        return PublishedMessage(
            options.topic or change.kind,
            str(change.job) if by_job else change.identity,
            encodable(change),
            {OP: change.op, KIND: change.kind, VERSION: str(change.version)},
        )

    return Publication((options.topic,) if options.topic else tuple(sorted(kinds)), kinds, message)


CHECK_SECONDS = 3.0
OWN = "kafka"
"""The sink that the settings configure."""


def from_settings(service: SinkService) -> SinkRow | None:
    """Return the sink `kafka` for the pipelines' publications, if brokers are set."""
    return SinkRow(OWN, "kafka") if service.settings.of(KafkaSettings).kafka_brokers else None


def build(service: SinkService, row: SinkRow) -> Sink:
    """Build a sink. Raises `Rejected` if brokers, the client library or the login are missing."""
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
    """Check that one of the brokers accepts a connection."""
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


def cluster_of(settings: KafkaSettings) -> "KafkaCluster":
    """Return the cluster that the settings name. Raises `Rejected` if brokers, the client library or the login are
    missing."""
    if not settings.kafka_brokers:
        raise Rejected("Kafka needs brokers: set FORAGER_KAFKA_BROKERS.")
    try:
        from forager.sinks.kafka.cluster import KafkaCluster
    except ImportError as error:
        raise Rejected(
            "FORAGER_KAFKA_BROKERS is set, but the Kafka client is not installed: pip install 'forager-data[kafka]'"
        ) from error
    return KafkaCluster(",".join(settings.kafka_brokers), settings.kafka_timeout_seconds, _security(settings))


def _everything(service: SinkService, row: SinkRow) -> dict[str, Publication]:
    """Return, by pipeline, the publication of the changes that a row selects."""
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
