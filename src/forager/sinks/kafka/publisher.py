"""One producer and the transactions that it writes: messages and cursor together, or nothing.

A publisher that has failed is never used again. Its successor takes the same transactional id, which ends or rolls back
the failed one's transaction and fences it; then it reads the cursor back. Everything here blocks: the sink calls it in
a thread.
"""

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException

from forager.core.clock import Faults
from forager.core.errors import Permanent, Transient
from forager.sdk.delivery import NumberSet, PublishedMessage, encoded
from forager.sinks.kafka.cluster import KafkaCluster, code_of, reason_of

# The position up to which a ledger has published is stored in Kafka: a record of the compacted topic `forager-cursors`.
#
# The record is written in the transaction of the messages that it stands for, so it is true whatever happens between
# Kafka and the ledger. It is read back before anything is published, and it wins over the cursor in the ledger.


TOPIC = "forager-cursors"
NEWEST = 2_000
"""Offsets in which a cursor is searched first: between two compactions the topic grows with every transaction."""


@dataclass(frozen=True, slots=True)
class Cursor:
    last: int = 0
    """The last change that was handed over; everything up to it was published, or refused, or not for any topic."""
    first: int = 0
    """The first change of the batch that ended with `last`: these were handed over together, without a gap."""
    witness: str = ""
    """The identity and time of the change `last`: they distinguish this ledger from another."""

    def encoded(self) -> bytes:
        return orjson.dumps(asdict(self))

    def covers(self, change: int) -> bool:
        """Return whether this change was part of the last batch, which is repeated after a crash."""
        return self.first <= change <= self.last


def read_cursor(cluster: KafkaCluster, topic: str, name: str) -> Cursor:
    """Return the last committed cursor of this name, or one at 0."""
    ends = cluster.ends(topic)
    found = _last(cluster, topic, name, ends, NEWEST)
    if found is None and any(end > NEWEST for end in ends.values()):
        found = _last(cluster, topic, name, ends, None)
    return found or Cursor()


def _last(cluster: KafkaCluster, topic: str, name: str, ends: Mapping[int, int], newest: int | None) -> Cursor | None:
    last = None
    for message in cluster.read(topic, newest, ends):
        key, value = message.key(), message.value()
        if value is not None and key is not None and _text(key) == name:
            last = Cursor(**orjson.loads(value))
    return last


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode(errors="replace")


# Finds the changes that a topic already holds, by the header of every message.
#
# Used only when an old change is delivered again: by a replay, or after it was refused and set aside. A bitmap is
# enough, because change numbers are dense: ten million changes are little more than a megabyte.


CHANGE, SOURCE = "forager-change", "forager-source"
"""Headers: the number of the change, and the name under which its ledger publishes."""


def read_published(cluster: KafkaCluster, topics: Iterable[str], source: str) -> NumberSet:
    """Return every change of this source that these topics contain."""
    published = NumberSet()
    for topic in topics:
        for message in cluster.read(topic):
            headers = dict(message.headers() or ())
            if (
                _published_text(headers.get(SOURCE)) == source
                and (number := _published_text(headers.get(CHANGE))).isdigit()
            ):
                published.add(int(number))
    return published


def _published_text(header: str | bytes | None) -> str:
    return header.decode(errors="replace") if isinstance(header, bytes) else header or ""


UNACCEPTABLE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD})
"""Errors of a broker for a message that it never accepts."""
POINTS = ("kafka-begun", "kafka-produced", "kafka-cursor", "kafka-flushed", "kafka-committed")
"""The steps of a transaction at which a test can stop the program."""


class Publisher:
    """Publishes under one name. Only one publisher of a name works at a time: a new one fences the last."""

    def __init__(
        self,
        cluster: KafkaCluster,
        name: str,
        topics: Sequence[str],
        cursors: str,
        faults: Faults,
        *,
        prefix: str = "",
        together: bool = True,
    ) -> None:
        """`prefix` goes before the topic of each message; `topics` and `cursors` are whole names.

        `together=False` writes the cursor in a transaction of its own, before the messages: the negative control of the
        tests that kill publishers. Raises `Transient` if the brokers cannot be reached.
        """
        self._cluster = cluster
        self._name = name
        self._topics = tuple(topics)
        self._cursors = cursors
        self._faults = faults
        self._prefix = prefix
        self._together = together
        self._published: NumberSet | None = None
        self._refused: KafkaError | None = None
        self._producer = cluster.producer(f"forager-{name}")
        try:
            # The topics first: asking for them connects. On a producer without a connection, `init_transactions` often
            # waits for half a second before it looks for its coordinator again.
            self._await_topics([cursors, *topics])
            self._producer.init_transactions(cluster.timeout)
            self.cursor = read_cursor(cluster, cursors, name)
        except KafkaException as error:
            raise Transient(f"Kafka ({cluster.brokers}) takes no transactions: {reason_of(error)}.") from error

    def has(self, change: int) -> bool:
        """Return whether this change was published; never true for a change after the cursor."""
        if change > self.cursor.last:
            return False
        if self.cursor.covers(change):
            return True
        if self._published is None:
            self._published = read_published(self._cluster, self._topics, self._name)
        return change in self._published

    def publish(self, messages: Sequence[tuple[int, PublishedMessage]], cursor: Cursor) -> None:
        """Write the messages, each with the number of its change, and move the cursor, in one transaction.

        Raises `Permanent` if the broker will never take one of the messages, and `Transient` for everything else. After
        either, only a new publisher can find out whether the transaction was committed.
        """
        try:
            if not self._together:
                self._transact([], cursor)
            self._transact(messages, cursor)
        except KafkaException as error:
            raise self._translated(error) from error
        except BufferError as error:
            raise Transient("The queue of the Kafka client is full.") from error
        except SystemError as error:  # the client runs our callbacks while a fatal error is being raised
            raise Transient(f"Kafka ({self._cluster.brokers}) did not commit: another publisher took over.") from error
        self.cursor = cursor
        if self._published is not None:
            for change, _ in messages:
                self._published.add(change)

    def _await_topics(self, topics: Sequence[str]) -> None:
        """Wait until the brokers have every topic. Brokers that create topics by themselves do so on this request."""
        give_up = time.monotonic() + self._cluster.timeout
        for topic in topics:
            while (seen := self._producer.list_topics(topic, self._cluster.timeout).topics[topic]).error is not None:
                if time.monotonic() > give_up:
                    raise Transient(f"The topic {topic} is not there: {seen.error}. Create it, or let Forager do so.")
                time.sleep(0.1)

    def _transact(self, messages: Sequence[tuple[int, PublishedMessage]], cursor: Cursor) -> None:
        producer, at = self._producer, self._faults.at
        producer.begin_transaction()
        at("kafka-begun")
        source, delivered = (SOURCE, self._name.encode()), self._delivered
        for change, message in messages:
            headers: list[Any] = [(CHANGE, str(change).encode()), source]
            if message.headers:
                headers += [(name, value.encode()) for name, value in message.headers.items()]
            topic, value = self._prefix + message.topic, encoded(message.value)
            producer.produce(topic, value, message.key, headers=headers, on_delivery=delivered)
        at("kafka-produced")
        producer.produce(self._cursors, cursor.encoded(), self._name, on_delivery=self._delivered)
        at("kafka-cursor")
        producer.flush(self._cluster.timeout)
        at("kafka-flushed")
        producer.commit_transaction(self._cluster.timeout)
        at("kafka-committed")

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        """Called for messages that were not delivered (`delivery.report.only.error`)."""
        if error is not None and error.code() in UNACCEPTABLE:
            self._refused = error

    def _translated(self, error: KafkaException) -> Exception:
        if code_of(error) in UNACCEPTABLE:
            return Permanent(f"Kafka refuses the message: {reason_of(error)}.")
        if self._refused is not None:
            return Permanent(f"Kafka refuses the message: {self._refused.str()}.")
        return Transient(f"Kafka ({self._cluster.brokers}) did not commit: {reason_of(error)}.")

    def close(self) -> None:
        """Give up. An open transaction is rolled back, here or by the next publisher of this name."""
        with contextlib.suppress(KafkaException, SystemError):  # a fenced producer raises once more
            self._producer.purge()
            self._producer.flush(0)
