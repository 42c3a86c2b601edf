"""A Kafka cluster as the sink uses it: how its clients are configured, topics made, topics read to their end.

Everything here blocks: the sink calls it in a thread.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from forager.core.errors import Transient

_log = logging.getLogger("forager.kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # the client library reports every lost connection many times; the sink reports it once
_READ_AT_ONCE = 1_000
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
"""Small segments, since only closed ones are compacted."""
UNREACHABLE = frozenset(  # errors of the client itself, whose public names begin with _
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}  # noqa: SLF001
)

WITHOUT_LEADER = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """Addresses of the brokers, login, and time limits."""

    brokers: str
    timeout: float = 30.0
    security: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further settings of every client; they may hold a password."""

    def producer(self, transactional_id: str) -> Producer:
        """Return an idempotent producer with `acks=all` that writes in transactions."""
        milliseconds = round(self.timeout * 1000)
        return Producer(
            self._config(
                {
                    "transactional.id": transactional_id,
                    "enable.idempotence": True,
                    "acks": "all",
                    "request.timeout.ms": milliseconds,
                    "message.timeout.ms": milliseconds,
                    "transaction.timeout.ms": 2 * milliseconds,
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "delivery.report.only.error": True,  # a callback for each message would double its cost here
                }
            ),
            logger=_log,
        )

    def group_consumer(self, group: str, session_seconds: float, *, poll_seconds: float = 300.0) -> Consumer:
        """Return a consumer of a group that reads committed messages; its offsets are committed by the caller only. It
        loses its partitions if it sends no heartbeat for `session_seconds`, or is not polled for `poll_seconds`."""
        milliseconds = round(session_seconds * 1000)
        return Consumer(
            self._config(
                {
                    "group.id": group,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": "read_committed",
                    "session.timeout.ms": milliseconds,
                    "heartbeat.interval.ms": max(100, milliseconds // 20),  # heartbeats also announce rebalances
                    "max.poll.interval.ms": max(round(poll_seconds * 1000), milliseconds),
                    "fetch.wait.max.ms": 50,
                    "topic.metadata.refresh.interval.ms": 10_000,  # partitions that are added later
                    "allow.auto.create.topics": True,  # where brokers create topics by themselves, asking does it
                }
            ),
            logger=_log,
        )

    def check(self, timeout: float) -> None:
        """Return when a broker has answered in time. Raises `Transient` otherwise."""
        try:
            AdminClient(self._config({}), logger=_log).list_topics(timeout=timeout)
        except KafkaException as error:
            raise Transient(f"Kafka ({self.brokers}) cannot be reached: {reason_of(error)}.") from error

    def make_topics(self, topics: Sequence[str], partitions: int, compacted: Sequence[str] = ()) -> list[str]:
        """Create those topics that do not exist. Returns why some could not be created: they may exist all the same,
        or the broker may create them by itself. Raises `Transient` if the brokers cannot be reached."""
        admin = AdminClient(self._config({}), logger=_log)
        new = [NewTopic(name, partitions) for name in topics]
        new += [NewTopic(name, 1, config=COMPACTED) for name in compacted]
        problems = []
        for name, made in admin.create_topics(new, request_timeout=self.timeout).items():
            try:
                made.result(self.timeout)
            except TimeoutError:
                problems.append(f"{name}: the brokers did not answer in time")
            except KafkaException as error:
                if code_of(error) in UNREACHABLE:
                    raise Transient(f"Kafka ({self.brokers}) cannot be reached: {reason_of(error)}.") from error
                if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                    problems.append(f"{name}: {reason_of(error)}")
        return problems

    def read(self, topic: str, newest: int | None = None, ends: Mapping[int, int] | None = None) -> Iterator[Message]:
        """Yield every committed message of a topic, or those among the `newest` offsets of each partition, up to `ends`
        (default: its present end).

        Raises `Transient` if the end is not reached in time. An open transaction of another producer hides the messages
        behind it; the end is the real one, so this waits for that transaction.
        """
        ends = self.ends(topic) if ends is None else ends
        reader = self._consumer("read_committed")
        try:
            begin = {
                number: OFFSET_BEGINNING if newest is None else max(0, end - newest) for number, end in ends.items()
            }
            reader.list_topics(topic, timeout=self.timeout)  # connects now; without it the first fetch waits for 0.5 s
            reader.assign([TopicPartition(topic, number, begin[number]) for number in ends])
            yield from self._to_the_ends(reader, topic, ends)
        finally:
            reader.close()

    def _to_the_ends(self, reader: Consumer, topic: str, ends: Mapping[int, int]) -> Iterator[Message]:
        left = {number for number, end in ends.items() if end > 0}
        give_up = time.monotonic() + self.timeout
        while left:
            for message in reader.consume(_READ_AT_ONCE, timeout=0.05):
                give_up = time.monotonic() + self.timeout
                error, number = message.error(), message.partition()
                if error is None:
                    yield message
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise Transient(f"The topic {topic} could not be read: {error.str()}.")
                elif number is not None and (message.offset() or 0) >= ends[number]:
                    left.discard(number)
            if time.monotonic() > give_up:
                raise Transient(f"The topic {topic} could not be read to its end within {self.timeout:.0f} s.")

    def ends(self, topic: str) -> dict[int, int]:
        """Return, by partition, the offset after its last message, even within an open transaction. Raises
        `Transient` if the topic is not there or the brokers do not answer."""
        seer = self._consumer("read_uncommitted")
        try:
            known = seer.list_topics(topic, timeout=self.timeout).topics[topic]
            if known.error is not None or not known.partitions:  # a topic without metadata is not an empty topic
                raise Transient(f"The topic {topic} is not there: {known.error}.")
            return {number: self._end(seer, TopicPartition(topic, number)) for number in known.partitions}
        except KafkaException as error:
            raise Transient(f"The topic {topic} could not be read: {reason_of(error)}.") from error
        finally:
            seer.close()

    def _end(self, seer: Consumer, partition: TopicPartition) -> int:
        """Return the offset behind the last message of a partition. One that was created a moment ago has no leader
        for a while, which is waited for."""
        give_up = time.monotonic() + self.timeout
        while True:
            try:
                marks = seer.get_watermark_offsets(partition, timeout=self.timeout)
            except KafkaException as error:
                if code_of(error) not in WITHOUT_LEADER or time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
                continue
            if marks is None:
                raise Transient(
                    f"The end of the topic {partition.topic} could not be read within {self.timeout:.0f} s."
                )
            return int(marks[1])

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            self._config(
                {
                    "group.id": "forager-cursor-readers",  # required by the client; nothing is ever committed
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": isolation,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 10,  # it reads to the end and goes: what does not come at once is not there
                    "fetch.error.backoff.ms": 50,
                }
            ),
            logger=_log,
        )

    def _config(self, more: Mapping[str, Any]) -> dict[str, Any]:
        return {"bootstrap.servers": self.brokers, "client.id": "forager", **self.security, **more}


def code_of(error: KafkaException) -> int:
    return int(_error(error).code())


def reason_of(error: KafkaException) -> str:
    """Return the client's message."""
    return str(_error(error).str())


def _error(error: KafkaException) -> KafkaError:
    reason: KafkaError = error.args[0]
    return reason
