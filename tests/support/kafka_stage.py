"""Workers that claim offered acts from a topic of a Kafka cluster, in the process of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer, TopicPartition

from forager.core.ids import task_uuid
from forager.core.pipeline import Lane, Pipeline
from forager.core.states import TaskState
from forager.engine.work.worker import Worker
from forager.runners.kafka.feed import StageFeed
from forager.sdk.delivery import PublishedStage
from forager.sinks.kafka.cluster import KafkaCluster
from forager.sinks.kafka.publisher import SOURCE
from tests.support.acts import QUICK, acts

LANE = "acts"
OURS = "tests"


def offered_acts(**lane: Any) -> Pipeline:
    """Acts whose new tasks are offered, in a lane that every worker uses."""
    policy = Lane(LANE, **{"rate": None, "retry": QUICK, "scope": "worker", **lane})
    return replace(acts(policy, timeout=60.0), logged_states=frozenset({TaskState.READY}))


@dataclass
class StageTopic:
    """One topic and its consumer group; each has a name that no other test uses."""

    cluster: KafkaCluster
    session_seconds: float = 6.0
    poll_seconds: float = 300.0
    topic: str = ""
    partitions: int = 4

    def __post_init__(self) -> None:
        self.topic = self.topic or f"acts-{uuid4().hex[:10]}"
        self.group = f"group-{self.topic}"
        self._producer = Producer({"bootstrap.servers": self.cluster.brokers, "linger.ms": 5})

    def send(self, tasks: Iterable[tuple[int, int]], source: str = OURS) -> None:
        """Send a message for each (job, task)."""
        for number, (job, task) in enumerate(tasks):
            value = f'{{"job_id": "{job}", "task_id": "{task_uuid(job, task)}"}}'.encode()
            self.send_raw(value, source, partition=number % self.partitions)
        self.flush()

    def send_raw(self, value: bytes, source: str = OURS, *, partition: int = 0) -> None:
        headers: Any = [(SOURCE, source.encode())]
        self._producer.produce(self.topic, value, partition=partition, headers=headers)
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def feed(self, worker: Worker, most: int = 250) -> StageFeed:
        """Let a worker claim what the topic names. Start its consumer with `start`, and close it in a thread."""
        stage = PublishedStage("act", self.topic, LANE, self.group)
        connect = partial(self.cluster.group_consumer, self.group, self.session_seconds, poll_seconds=self.poll_seconds)
        feed = StageFeed(stage, connect, worker.claims, source=OURS, most=most, is_stopping=lambda: False)
        worker.claims.when_over(feed.over)
        return feed

    def lag(self) -> int:
        """Messages of the topic that the group has not committed."""
        with contextlib.closing(self.cluster.group_consumer(self.group, self.session_seconds)) as reader:
            partitions = [TopicPartition(self.topic, number) for number in range(self.partitions)]
            behind = 0
            for each in reader.committed(partitions, timeout=20):
                low, high = reader.get_watermark_offsets(each, timeout=20)
                behind += high - max(each.offset, low)
            return behind


@contextlib.asynccontextmanager
async def consuming(*feeds: StageFeed) -> AsyncIterator[None]:
    """Run the consumers while the block runs."""
    for feed in feeds:
        feed.consumer.start()
    try:
        yield
    finally:
        await asyncio.gather(*(asyncio.to_thread(feed.consumer.close) for feed in feeds))
