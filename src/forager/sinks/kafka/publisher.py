"""One producer and the transactions that it writes: messages and cursor together, or nothing.

A publisher that has failed is never used again. Its successor takes the same transactional id, which ends or rolls
back what the failed one left and fences it for good; then it reads the cursor back and knows what was published.
Everything here blocks: the sink calls it in a thread.
"""

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from forager.core.errors import Permanent, Transient
from forager.core.faults import Faults
from forager.kit.change_json import encoded
from forager.kit.number_set import NumberSet
from forager.kit.publication import Message
from forager.sinks.kafka.cluster import Cluster, code_of, reason_of
from forager.sinks.kafka.cursor import Cursor, read_cursor
from forager.sinks.kafka.published import CHANGE, SOURCE, read_published

UNACCEPTABLE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError.INVALID_RECORD})
"""What a broker says about a message that it will never take."""
POINTS = ("kafka-begun", "kafka-produced", "kafka-cursor", "kafka-flushed", "kafka-committed")
"""The steps of a transaction at which a test can stop the program."""


class Publisher:
    """Publishes under one name. Only one publisher of a name works at a time: a new one fences the last."""

    def __init__(
        self,
        cluster: Cluster,
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
        """Whether this change was published. Only of changes up to the cursor can that be so."""
        if change > self.cursor.last:
            return False
        if self.cursor.covers(change):
            return True
        if self._published is None:
            self._published = read_published(self._cluster, self._topics, self._name)
        return change in self._published

    def publish(self, messages: Sequence[tuple[int, Message]], cursor: Cursor) -> None:
        """Write the messages, each with the number of its change, and move the cursor, in one transaction.

        Raises `Permanent` if the broker will never take one of the messages, and `Transient` for everything else. After
        either, whether the transaction was committed is known to a new publisher only.
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
        """Wait until every topic is known to the brokers. Where they create topics by themselves, asking does it."""
        give_up = time.monotonic() + self._cluster.timeout
        for topic in topics:
            while (seen := self._producer.list_topics(topic, self._cluster.timeout).topics[topic]).error is not None:
                if time.monotonic() > give_up:
                    raise Transient(f"The topic {topic} is not there: {seen.error}. Create it, or let Forager do so.")
                time.sleep(0.1)

    def _transact(self, messages: Sequence[tuple[int, Message]], cursor: Cursor) -> None:
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
        with contextlib.suppress(KafkaException, SystemError):  # one that was fenced says so once more
            self._producer.purge()
            self._producer.flush(0)
