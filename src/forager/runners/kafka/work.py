"""Lets a worker get its tasks from Kafka: one consumer per queue, beside the engine on the lanes of these queues.

The engine leases as always, too: retries, and tasks whose message was lost, become ready by the ledger's clock.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from forager.app import App
from forager.core.errors import FieldError, Rejected, Transient
from forager.kit.publication import Publication, Stage
from forager.runners.kafka.feed import StageFeed
from forager.sinks.kafka.settings import KafkaSettings
from forager.sinks.kafka.wiring import cluster_of

if TYPE_CHECKING:
    from forager.sinks.kafka.cluster import Cluster

log = structlog.get_logger("forager.kafka")
AHEAD = 50
"""Messages that are taken beyond the places of their lane, so that none of these waits for Kafka."""


@asynccontextmanager
async def consuming(app: App, queues: Sequence[str]) -> AsyncIterator[Sequence[StageFeed]]:
    """Claim the tasks of these queues' messages while the block runs. Enter it before the engine and leave it after:
    what ends while the engine drains is committed.

    Raises `Rejected` if brokers or the client library are missing, or a queue has no topic.
    """
    settings = app.settings.of(KafkaSettings)
    stages = [stage_of(app.publications, queue) for queue in dict.fromkeys(queues)]
    cluster = cluster_of(settings)
    prefix, claims = settings.kafka_topic_prefix, app.worker.claims
    if settings.kafka_partitions:
        topics = [prefix + stage.topic for stage in stages]
        await make_topics(cluster, topics, settings.kafka_partitions)
    feeds = [
        StageFeed(
            stage,
            partial(cluster.group_consumer, prefix + stage.queue, settings.kafka_session_seconds),
            claims,
            source=settings.kafka_name,
            prefix=prefix,
            most=min(app.settings.capacity, app.lane_for(stage.lane).concurrency) + AHEAD,
            is_stopping=lambda: app.is_stopping,
        )
        for stage in stages
    ]

    def over(tasks: Collection[int]) -> None:
        for feed in feeds:
            feed.over(tasks)

    claims.when_over(over)
    app.worker.serve([stage.queue for stage in stages])
    app.worker.stats.consumer_lag = lambda: {feed.stage.queue: feed.consumer.lag for feed in feeds}
    for feed in feeds:
        feed.consumer.start()
    try:
        yield feeds
    finally:
        await asyncio.gather(*(asyncio.to_thread(feed.consumer.close) for feed in feeds))


async def make_topics(cluster: "Cluster", topics: Sequence[str], partitions: int) -> None:
    """Create missing topics. If Kafka does not answer, that is logged and the worker starts all the same: its tasks are
    in the ledger, and the consumer connects when Kafka is back."""
    log.info("connecting to Kafka", brokers=cluster.brokers)
    try:
        problems = await asyncio.to_thread(cluster.make_topics, topics, partitions)
    except Transient as error:
        problems = [error.message]
    for problem in problems:
        log.warning("a Kafka topic could not be created", problem=problem)


def stage_of(publications: Mapping[str, Publication], queue: str) -> Stage:
    """Return the stage whose tasks belong to a queue. Raises `Rejected` if no pipeline publishes them."""
    stages = {stage.queue: stage for each in publications.values() for stage in each.stages}
    if queue not in stages:
        raise Rejected(
            f"No pipeline publishes tasks of the queue {queue!r}. Use one of {', '.join(stages)}, or serve it with"
            " `forager worker --queue` without --runner kafka.",
            fields=[FieldError("--queue", f"{queue!r} has no topic")],
        )
    return stages[queue]
