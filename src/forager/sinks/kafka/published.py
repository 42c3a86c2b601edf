"""Which changes a topic holds already, by the header that every message carries.

Asked only when an old change is handed over again: by a replay, or after it was refused and set aside. A bitmap is
enough, because change numbers are dense: ten million changes are little more than a megabyte.
"""

from collections.abc import Iterable

from forager.kit.number_set import NumberSet
from forager.sinks.kafka.cluster import Cluster

CHANGE, SOURCE = "forager-change", "forager-source"
"""Headers: the number of the change, and the name under which its ledger publishes."""


def read_published(cluster: Cluster, topics: Iterable[str], source: str) -> NumberSet:
    """Every change of this source that these topics hold."""
    published = NumberSet()
    for topic in topics:
        for message in cluster.read(topic):
            headers = dict(message.headers() or ())
            if _text(headers.get(SOURCE)) == source and (number := _text(headers.get(CHANGE))).isdigit():
                published.add(int(number))
    return published


def _text(header: str | bytes | None) -> str:
    return header.decode(errors="replace") if isinstance(header, bytes) else header or ""
