"""Hands the tasks of one topic's messages to the worker, and reports to the consumer which messages are done with.

Lives on the worker's event loop; the consumer calls it from its thread through `call_soon_threadsafe`.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog
from confluent_kafka import Consumer, Message

from forager.app.application import App
from forager.core.errors import FieldError, Rejected, Transient
from forager.engine.work.worker import Claims
from forager.runners.kafka.consumer import Position, TopicConsumer, task_of
from forager.sdk.delivery import Publication, PublishedStage
from forager.sinks.kafka.settings import KafkaSettings
from forager.sinks.kafka.wiring import cluster_of

if TYPE_CHECKING:
    from forager.sinks.kafka.cluster import KafkaCluster


log = structlog.get_logger("forager.kafka")


class StageFeed:
    """The tasks of one stage that messages have named to this worker and that have not ended."""

    def __init__(
        self,
        stage: PublishedStage,
        connect: Callable[[], Consumer],
        claims: Claims,
        *,
        source: str,
        prefix: str = "",
        most: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        """`source`: the name under which our ledger publishes. `most`: how many messages are taken at a time."""
        self.stage = stage
        self._claims = claims
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._places: dict[int, list[Position]] = {}
        """Messages by task. Usually one; a repeated message is a second."""
        self._is_puzzled = False
        self.consumer = TopicConsumer(
            prefix + stage.topic,
            connect,
            most=most,
            arrived=lambda batch: self._on_loop(self._arrived, batch),
            revoked=lambda assignments: self._on_loop(self._revoked, assignments),
            is_stopping=is_stopping,
        )

    def over(self, tasks: Collection[int]) -> None:
        """Note that these tasks are over, as far as they are ours."""
        for task in tasks:
            self.consumer.finish(self._places.pop(task, ()))

    def _on_loop(self, call: Callable[..., None], *given: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *given)

    def _arrived(self, batch: Sequence[tuple[Position, Message]]) -> None:
        new: list[int] = []
        for place, message in batch:
            task = task_of(message, self._source)
            if task is None:
                self._skip(place, message)
            elif task in self._places:
                self._places[task].append(place)
            else:
                self._places[task] = [place]
                new.append(task)
        if new:
            self._claims.add(self.stage.lane, new)

    def _skip(self, place: Position, message: Message) -> None:
        self.consumer.finish([place])
        if not self._is_puzzled:
            self._is_puzzled = True
            log.warning(
                "kafka_message_skipped",
                topic=message.topic(),
                offset=place.offset,
                partition=place.partition,
            )

    def _revoked(self, assignments: Collection[int]) -> None:
        """Claim none of the tasks whose messages another consumer gets now. Those that run here continue."""
        gone: defaultdict[int, list[Position]] = defaultdict(list)
        for task, places in self._places.items():
            if all(place.assignment in assignments for place in places):
                gone[task] = places
        for task in self._claims.forget(gone.keys()):
            del self._places[task]


# Lets a worker get its tasks from Kafka: one consumer per queue, in parallel with the engine on the lanes of these
# queues.
#
# The engine also leases as always: retries, and tasks whose message was lost, become ready by the ledger's clock.


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


async def make_topics(cluster: "KafkaCluster", topics: Sequence[str], partitions: int) -> None:
    """Create missing topics. If Kafka does not answer, that is logged and the worker starts all the same: its tasks are
    in the ledger, and the consumer connects when Kafka is back."""
    log.info("kafka_connecting", brokers=cluster.brokers)
    try:
        problems = await asyncio.to_thread(cluster.make_topics, topics, partitions)
    except Transient as error:
        problems = [error.message]
    for problem in problems:
        log.warning("kafka_topic_not_created", problem=problem)


def stage_of(publications: Mapping[str, Publication], queue: str) -> PublishedStage:
    """Return the stage whose tasks belong to a queue. Raises `Rejected` if no pipeline publishes them."""
    stages = {stage.queue: stage for each in publications.values() for stage in each.stages}
    if queue not in stages:
        raise Rejected(
            f"No pipeline publishes tasks of the queue {queue!r}. Use one of {', '.join(stages)}, or serve it with"
            " `forager worker --queue` without --runner kafka.",
            fields=[FieldError("--queue", f"{queue!r} has no topic")],
        )
    return stages[queue]
