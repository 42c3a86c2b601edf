"""Checks when a Kafka worker starts. What would keep tasks from it is refused at once with the remedy."""

from collections.abc import Sequence

from forager.core.errors import FieldError, Rejected
from forager.settings import Settings
from forager.sinks.kafka.settings import KafkaSettings

NEEDS_POSTGRES = (
    "--runner kafka needs PostgreSQL (FORAGER_DATABASE_URL): the embedded store belongs to one process, so that no"
    " second worker could run on it. Run `forager up` alone: it does the work itself."
)
NEEDS_BROKERS = "--runner kafka needs brokers: set FORAGER_KAFKA_BROKERS, such as 127.0.0.1:9092."
NEEDS_MESSAGES = (
    "New tasks are not published. Set FORAGER_KAFKA_TASKS=true for this worker and for every other process of the"
    " ledger, or run `forager worker` without --runner kafka."
)
NEEDS_QUEUES = (
    "--runner kafka needs the queues whose topics it reads, such as --queue account-worker --queue location-worker"
    " --queue review-worker."
)


def check(settings: Settings, queues: Sequence[str] | None) -> None:
    """Raise `Rejected` if a worker with these settings and queues would get no task from Kafka."""
    kafka = settings.of(KafkaSettings)
    for is_missing, field, remedy in (
        (settings.database_url is None, "FORAGER_DATABASE_URL", NEEDS_POSTGRES),
        (not kafka.kafka_brokers, "FORAGER_KAFKA_BROKERS", NEEDS_BROKERS),
        (not kafka.kafka_tasks, "FORAGER_KAFKA_TASKS", NEEDS_MESSAGES),
        (not queues, "--queue", NEEDS_QUEUES),
    ):
        if is_missing:
            raise Rejected(remedy, fields=[FieldError(field, "is needed for --runner kafka")])
