"""How far a ledger has published, as Kafka itself knows it: a record of the compacted topic `forager-cursors`.

The record is written in the transaction of the messages that it stands for, so it is true whatever happens between
Kafka and the ledger. It is read back before anything is published, and it wins over the place that the ledger keeps.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import orjson

from forager.sinks.kafka.cluster import Cluster

TOPIC = "forager-cursors"
NEWEST = 2_000
"""Offsets in which a cursor is looked for first: between two compactions the topic grows with every transaction."""


@dataclass(frozen=True, slots=True)
class Cursor:
    last: int = 0
    """The last change that was handed over; everything up to it was published, or refused, or not for any topic."""
    first: int = 0
    """The first change of the batch that ended with `last`: these were handed over together, without a gap."""
    witness: str = ""
    """What the change `last` is about and when it was made: it tells this ledger from another one."""

    def encoded(self) -> bytes:
        return orjson.dumps(asdict(self))

    def covers(self, change: int) -> bool:
        """Whether this change was part of the last batch: a crash before the ledger noted it brings it again."""
        return self.first <= change <= self.last


def read_cursor(cluster: Cluster, topic: str, name: str) -> Cursor:
    """The last committed cursor of this name; one at 0 if there is none."""
    ends = cluster.ends(topic)
    found = _last(cluster, topic, name, ends, NEWEST)
    if found is None and any(end > NEWEST for end in ends.values()):
        found = _last(cluster, topic, name, ends, None)
    return found or Cursor()


def _last(cluster: Cluster, topic: str, name: str, ends: Mapping[int, int], newest: int | None) -> Cursor | None:
    last = None
    for message in cluster.read(topic, newest, ends):
        key, value = message.key(), message.value()
        if value is not None and key is not None and _text(key) == name:
            last = Cursor(**orjson.loads(value))
    return last


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode(errors="replace")
