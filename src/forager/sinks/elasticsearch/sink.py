"""The Elasticsearch sink: every record that has changed goes to its index, as it is now.

Documents are read from the ledger when they are sent, never from the change, and carry the number of the change as
their version. So a replay or a late process never writes old over new.
"""

from collections.abc import Sequence

from forager.core.change import Change
from forager.core.sink import Batching
from forager.sinks.elasticsearch.index import ElasticIndex


class ElasticsearchSink:
    """Keeps the indexes of some record classes up to date."""

    batching = Batching(most=500, age=0.1)  # a change is searchable about 1.6 s after its commit at the latest

    def __init__(self, name: str, indexes: Sequence[ElasticIndex]) -> None:
        self.name = name
        self._indexes = {index.record.kind: index for index in indexes}
        self.kinds: frozenset[str] | None = frozenset(self._indexes)

    async def write(self, batch: Sequence[Change]) -> bool:
        """Index the records of the batch. Builds an index that is not there yet."""
        by_kind: dict[str, list[Change]] = {}
        for change in batch:
            if change.kind in self._indexes:
                by_kind.setdefault(change.kind, []).append(change)
        for kind, changes in by_kind.items():
            await self._indexes[kind].put(changes)
        return bool(by_kind)

    async def close(self) -> None:
        """Close the connections of the indexes."""
        for index in self._indexes.values():
            await index.close()
