"""The Kafka sink: what pipelines publish, each change once for readers of committed messages.

Messages and the sink's cursor are one Kafka transaction, as in the exactly-once sources of Kafka Connect. The ledger's
own cursor moves afterwards and may be behind; changes that come again are recognised by the cursor in Kafka.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import StoreError, Transient
from forager.core.ledger import Ledger
from forager.core.sink import Batching
from forager.sdk.delivery import Publication, PublishedMessage
from forager.sinks.kafka.cluster import KafkaCluster
from forager.sinks.kafka.publisher import TOPIC, Cursor, Publisher
from forager.sinks.log_cursor import is_cursor_of, witness

log = structlog.get_logger("forager.sinks")

_REQUESTS = "SELECT public_id, pipeline, request_id FROM jobs WHERE public_id IN :ids"

WAIT_TO_OPEN = 2.0
"""Seconds in which a broker must answer for `KafkaSink.open` to continue."""


class KafkaSink:
    """Publishes what the pipelines' publications make of their changes."""

    batching = Batching(most=1_000, age=0.05)  # a transaction costs the broker about as much as a hundred messages

    def __init__(
        self,
        cluster: KafkaCluster,
        publications: Mapping[str, Publication],
        ledger: Ledger,
        *,
        sink: str = "kafka",
        name: str = "forager",
        pipelines: frozenset[str] | None = None,
        again: bool = False,
        prefix: str = "",
        partitions: int = 6,
        tasks: bool = False,
        faults: Faults | None = None,
        together: bool = True,
    ) -> None:
        """`publications` by pipeline; `name`: under which it publishes. `tasks`: their stages are published as well.
        `together`: see `Publisher`.

        `again`: a replay writes old changes again, with the same numbers; without it, a replay writes only those that
        the topics no longer contain.
        """
        self.name = sink
        self.pipelines = pipelines
        self._again = again
        self.kinds: frozenset[str] | None = frozenset(kind for each in publications.values() for kind in each.kinds)
        self._cluster = cluster
        self._publications = publications
        self._ledger = ledger
        self._name = name
        self._prefix = prefix
        self._partitions = partitions
        self._faults = faults or NoFaults()
        self._together = together
        stages = {stage.topic for each in publications.values() for stage in each.stages} if tasks else set()
        topics = {topic for each in publications.values() for topic in each.topics} | stages
        self._topics = sorted(prefix + topic for topic in topics)
        self._publisher: Publisher | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Connect, create the topics and read the cursor before the first change. Raises `Transient` if the brokers do
        not answer at once: a process that ends waits for its threads, and one with nothing to publish must not wait
        long for a broker that is away."""
        if self._publisher is not None:
            return
        await asyncio.to_thread(self._cluster.check, WAIT_TO_OPEN)
        await self._opened()

    async def write(self, batch: Sequence[Change]) -> bool:
        """Publish what was not published yet, and move the cursor, in one transaction."""
        publisher = await self._opened()
        try:
            any_due, published = await asyncio.to_thread(self._publish, publisher, batch)
        except BaseException:  # also if we are cancelled while the transaction is under way
            self._publisher = None
            publisher.close()
            raise
        await self._log(published)
        return any_due

    def _publish(self, publisher: Publisher, batch: Sequence[Change]) -> tuple[bool, list[PublishedMessage]]:
        """Return whether something was due, and the messages that were published now."""
        due = [(change.id, message) for change in batch if (message := self._message(change)) is not None]
        known = publisher.cursor.covers if self._again else publisher.has
        new = [(number, message) for number, message in due if not known(number)]
        last = batch[-1]
        if last.id > publisher.cursor.last:
            publisher.publish(new, Cursor(last.id, batch[0].id, witness(last)))
        elif new:
            publisher.publish(new, publisher.cursor)
        return bool(due), [message for _, message in new]

    async def _log(self, published: Sequence[PublishedMessage]) -> None:
        """Log what was published: one line for each topic of a job, and where messages name them, for each account and
        location."""
        counts = Counter(
            (each.key, each.topic, each.value.get("account_id"), each.value.get("location_id")) for each in published
        )
        if not counts:
            return
        try:
            rows = await self._ledger.database.fetch_by_keys(_REQUESTS, {"ids": sorted({key[0] for key in counts})})
        except StoreError:
            rows = []
        jobs = {row["public_id"]: row for row in rows}
        for (key, topic, account, location), count in counts.items():
            job = jobs.get(key, {})
            log.info(
                "job_published_to_kafka",
                job_id=key,
                pipeline=job.get("pipeline"),
                request_id=job.get("request_id"),
                topic=self._prefix + topic,
                account_id=account,
                location_id=location,
                messages=count,
            )

    def _message(self, change: Change) -> PublishedMessage | None:
        publication = self._publications.get(change.pipeline or "")
        if publication is None or change.kind not in publication.kinds:
            return None
        return publication.message(change)

    async def _opened(self) -> Publisher:
        async with self._opening:  # a second publisher would fence the first
            if self._publisher is None:
                publisher = await self._connected()
                try:
                    await self._check_ledger(publisher.cursor)
                except BaseException:
                    publisher.close()
                    raise
                self._publisher = publisher
            return self._publisher

    async def _connected(self) -> Publisher:
        """Connect in a thread. The thread cannot be cancelled: if the caller is, wait for the thread and close what it
        made, because a publisher that is made later would fence the next one."""
        connecting = asyncio.ensure_future(asyncio.to_thread(self._connect))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            await asyncio.wait({connecting})
            if connecting.exception() is None:
                connecting.result().close()
            raise

    def _connect(self) -> Publisher:
        cursors = self._prefix + TOPIC
        if self._partitions:
            for problem in self._cluster.make_topics(self._topics, self._partitions, compacted=[cursors]):
                log.warning("kafka_topic_not_created", problem=problem)
        return Publisher(
            self._cluster,
            self._name,
            self._topics,
            cursors,
            self._faults,
            prefix=self._prefix,
            together=self._together,
        )

    async def _check_ledger(self, cursor: Cursor) -> None:
        """Raises `Transient` if the cursor in Kafka is not about this ledger: publishing would leave changes out."""
        if not cursor.last:
            return
        if not await is_cursor_of(self._ledger, cursor.last, cursor.witness):
            raise Transient(
                f"Kafka has change {cursor.last} of another ledger under the name {self._name!r}."
                " Set FORAGER_KAFKA_NAME to a name of its own."
            )
