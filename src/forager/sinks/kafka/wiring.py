"""How the Kafka sink is built from its settings. The client library is an extra, and loaded only if brokers are set."""

from forager.core.errors import Rejected
from forager.core.sink import Sink
from forager.kit.service import SinkService
from forager.sinks.kafka.settings import KafkaSettings


def build(service: SinkService) -> Sink | None:
    """The sink, if brokers are set. Raises `Rejected` if the client library or the log-in is missing."""
    settings = service.settings.of(KafkaSettings)
    if not settings.kafka_brokers:
        return None
    try:
        from forager.sinks.kafka.cluster import Cluster
        from forager.sinks.kafka.sink import KafkaSink
    except ImportError as error:
        raise Rejected(
            "FORAGER_KAFKA_BROKERS is set, but the Kafka client is not installed: pip install 'forager-data[kafka]'"
        ) from error
    return KafkaSink(
        Cluster(",".join(settings.kafka_brokers), settings.kafka_timeout_seconds, _security(settings)),
        service.publications,
        service.ledger,
        name=settings.kafka_name,
        prefix=settings.kafka_topic_prefix,
        partitions=settings.kafka_partitions,
    )


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
