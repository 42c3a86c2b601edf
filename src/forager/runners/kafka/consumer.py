"""A consumer of one topic, in a thread of its own: it takes messages, and commits those that are done with, in order.

The thread polls whatever the worker does, so that a long task causes no rebalance. When the worker has had as many
messages as it can use for a second, the partitions are paused and polled all the same; not at once, because a pause
discards what was fetched ahead. When partitions go to another consumer, what
is done is committed and the rest is left to it: a task that still runs here cannot be claimed there.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

import orjson
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from forager.core.ids import task_numbers
from forager.sinks.kafka.cluster import reason_of
from forager.sinks.kafka.publisher import SOURCE

# Tracks which messages of a partition are done, so that its offset can be committed. Pure.
#
# Kafka keeps one offset per partition: everything before it is done. Tasks end in any order, so an offset waits here
# until all messages before it are done.


class PartitionOffsets:
    """The messages of one partition that were taken and are not committed yet."""

    def __init__(self) -> None:
        self._taken: deque[int] = deque()
        self._done: set[int] = set()

    def __len__(self) -> int:
        """Return how many messages were taken whose end is not known."""
        return len(self._taken) - len(self._done)

    def take(self, offset: int) -> None:
        """Note that a message was taken. Messages are taken in the order of their offsets."""
        self._taken.append(offset)

    def finish(self, offset: int) -> None:
        """Note that a message is done with."""
        self._done.add(offset)

    def advance(self) -> int | None:
        """Return the offset to commit, that of the first message that is not done; None if it has not moved."""
        last: int | None = None
        while self._taken and self._taken[0] in self._done:
            last = self._taken.popleft()
            self._done.discard(last)
        return None if last is None else last + 1


log = structlog.get_logger("forager.kafka")

POLL_SECONDS = 0.1
MOST_AT_ONCE = 500
COMMIT_EVERY = 0.2
LAG_EVERY = 5.0
LAG_TIMEOUT = 2.0
START_AGAIN_AFTER = 1.0
PAUSE_AFTER = 1.0
"""Seconds after which a consumer that is full pauses its partitions; until then it only waits."""
_QUIET = frozenset({KafkaError._PARTITION_EOF})  # noqa: SLF001 - the client's own name


class Position(NamedTuple):
    """The position of a message: its partition, its offset, and the assignment by which we had the partition."""

    partition: int
    offset: int
    assignment: int


class TopicConsumer:
    """Takes at most `most` messages of a topic at a time, and hands them over with `arrived`. Both callbacks are called
    in the consumer's thread; `finish` may be called in any."""

    def __init__(
        self,
        topic: str,
        connect: Callable[[], Consumer],
        *,
        most: int,
        arrived: Callable[[Sequence[tuple[Position, Message]]], None],
        revoked: Callable[[Collection[int]], None],
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`revoked` gets the assignments whose messages are left to another consumer."""
        self.topic = topic
        self.lag = 0
        """Messages of our partitions that are not committed."""
        self.losses = 0
        """Number of times we lost partitions without a rebalance of ours, because we were silent for too long."""
        self._connect = connect
        self._most = most
        self._arrived = arrived
        self._revoked = revoked
        self._is_stopping = is_stopping
        self._finished: SimpleQueue[Position] = SimpleQueue()
        self._partitions: dict[int, PartitionOffsets] = {}
        self._assignments: dict[int, int] = {}
        self._assigned = 0
        self._to_commit: dict[int, int] = {}
        self._committed_at = self._lag_at = 0.0
        self.is_paused = False
        """True if our partitions are paused, because the worker has enough messages."""
        self._full_since: float | None = None
        self._trouble: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafka {topic}", daemon=True)

    @property
    def has_partitions(self) -> bool:
        return bool(self._partitions)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Commit what is done, and leave the group. Blocks."""
        self._stop.set()
        self._thread.join()

    def finish(self, places: Sequence[Position]) -> None:
        """Note that these messages are done with."""
        for place in places:
            self._finished.put(place)

    # ── in the thread ──

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._consume()
            except Exception as error:
                reason = reason_of(error) if isinstance(error, KafkaException) else repr(error)
                log.exception("kafka_consumer_failed", topic=self.topic, reason=reason)
                self._stop.wait(START_AGAIN_AFTER)

    def _consume(self) -> None:
        consumer = self._connect()
        try:
            consumer.subscribe([self.topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)
            while not self._stop.is_set():
                if self._full_since is None or self.is_paused:
                    first = consumer.poll(POLL_SECONDS)
                    room = max(0, min(MOST_AT_ONCE, self._most - self._taken()) - 1)
                    rest = consumer.consume(room, timeout=0) if first is not None and room else []
                    self._take([first, *rest] if first is not None else [])
                    self._settle_up()
                else:
                    self._settle_up(POLL_SECONDS)
                self._pause_or_resume(consumer)
                self._commit(consumer)
                self._measure(consumer)
            self._settle_up()
            self._commit(consumer, now=True)
        finally:
            with contextlib.suppress(KafkaException, RuntimeError):
                consumer.close()
            self._forget(list(self._partitions))

    def _taken(self) -> int:
        return sum(map(len, self._partitions.values()))

    def _take(self, messages: Sequence[Message]) -> None:
        taken: list[tuple[Position, Message]] = []
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                if error.code() not in _QUIET:
                    self._report(str(error.str()))
            elif partition in self._partitions and partition is not None and offset is not None:
                self._partitions[partition].take(offset)
                taken.append((Position(partition, offset, self._assignments[partition]), message))
        if taken:
            self._report(None)
            self._arrived(taken)

    def _settle_up(self, wait: float = 0.0) -> None:
        """Note finished messages; wait for the first one up to `wait` seconds. A message of an earlier assignment
        belongs to another consumer."""
        with contextlib.suppress(Empty):
            while True:
                place = self._finished.get(timeout=wait) if wait else self._finished.get_nowait()
                wait = 0.0
                if self._assignments.get(place.partition) == place.assignment:
                    self._partitions[place.partition].finish(place.offset)
        for number, partition in self._partitions.items():
            if (offset := partition.advance()) is not None:
                self._to_commit[number] = offset

    def _pause_or_resume(self, consumer: Consumer) -> None:
        is_full, now = self._taken() >= self._most or self._is_stopping(), time.monotonic()
        self._full_since = (self._full_since or now) if is_full else None
        if not self.is_paused and self._full_since is not None and now - self._full_since >= PAUSE_AFTER:
            consumer.pause(self._own())
            self.is_paused = True
        elif self.is_paused and not is_full:
            consumer.resume(self._own())
            self.is_paused = False

    def _commit(self, consumer: Consumer, *, now: bool = False) -> None:
        """Commit what has moved; a commit that is lost only means that messages come again and find nothing."""
        if not self._to_commit or not (now or time.monotonic() - self._committed_at >= COMMIT_EVERY):
            return
        offsets = [TopicPartition(self.topic, number, offset) for number, offset in self._to_commit.items()]
        self._to_commit.clear()
        self._committed_at = time.monotonic()
        with contextlib.suppress(KafkaException):
            if now:
                consumer.commit(offsets=offsets, asynchronous=False)
            else:
                consumer.commit(offsets=offsets)

    def _measure(self, consumer: Consumer) -> None:
        """Count the messages that are not committed, of the partitions that we have."""
        if time.monotonic() - self._lag_at < LAG_EVERY:
            return
        self._lag_at = time.monotonic()
        with contextlib.suppress(KafkaException):
            lag = 0
            for each in consumer.committed(self._own(), timeout=LAG_TIMEOUT):
                low, high = consumer.get_watermark_offsets(each, timeout=LAG_TIMEOUT) or (0, 0)
                lag += max(0, high - max(each.offset, low))
            self.lag = lag

    def _own(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in self._partitions]

    # ── rebalances, which happen inside of `poll` ──

    def _assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned += 1
        for each in partitions:
            self._partitions[each.partition] = PartitionOffsets()
            self._assignments[each.partition] = self._assigned
        self.is_paused = True  # a partition that was paused when we had it before still is: resume all of them
        self._lag_at = 0.0
        log.info("kafka_partitions_assigned", topic=self.topic, partitions=[each.partition for each in partitions])

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._settle_up()
        self._commit(consumer, now=True)
        self._forget([each.partition for each in partitions])

    def _lose(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.losses += 1
        self._forget([each.partition for each in partitions])

    def _forget(self, partitions: Collection[int]) -> None:
        gone = {self._assignments.pop(number) for number in partitions if number in self._assignments}
        for number in partitions:
            self._partitions.pop(number, None)
            self._to_commit.pop(number, None)
        if gone:
            self._revoked(gone)

    def _report(self, trouble: str | None) -> None:
        """Log the first of many failures, and the first success after them."""
        if trouble is not None and self._trouble is None:
            log.warning("kafka_unreachable", topic=self.topic, error=trouble)
        elif trouble is None and self._trouble is not None:
            log.info("kafka_reachable", topic=self.topic)
        self._trouble = trouble


# Reads the number of a task from a message of the Kafka sink. Pure.


def task_of(message: Message, source: str) -> int | None:
    """Return the task that a message names; None if it is not one of ours. `source`: the name under which our ledger
    publishes, since another ledger's numbers mean other tasks."""
    headers = dict(message.headers() or ())
    named = headers.get(SOURCE)
    if (named.decode(errors="replace") if isinstance(named, bytes) else named) != source:
        return None
    try:
        numbers = task_numbers(UUID(orjson.loads(message.value() or b"")["task_id"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return None if numbers is None else numbers[1]
