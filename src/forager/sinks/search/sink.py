"""The search sink: keeps the full-text index of every record class that declares `search`, from the change log.

The index is in the same store, so no other service is needed. It survives upgrades unless its definition changed; then
it is created again and filled from the records themselves, which `forager search rebuild` does at any time.
"""

from collections.abc import Sequence

from forager.core.change import Change
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.sdk.search import SearchIndex, index_of
from forager.sdk.service import SinkService


def from_settings(service: SinkService) -> SinkRow | None:
    """Return the sink `search` if a pipeline has a record class that declares `search`."""
    return SinkRow(SearchSink.name, "search") if _searched(service) else None


def build(service: SinkService, row: SinkRow) -> "SearchSink":
    return SearchSink([index_of(record, service.database) for record in _searched(service)])


def _searched(service: SinkService) -> list[type[Record]]:
    """Return the record classes whose index is in the store: all that declare `search` and have no external index."""
    records = [record for pipeline in service.pipelines.values() for record in pipeline.records if record.search]
    return [record for record in records if isinstance(service.search_index(record), SearchIndex)]


class SearchSink:
    """Indexes each record that has changed, as it is now: a change that is delivered twice has the same effect."""

    name = "search"

    def __init__(self, indexes: Sequence[SearchIndex]) -> None:
        self._indexes = {index.record.kind: index for index in indexes}
        self.kinds: frozenset[str] | None = frozenset(self._indexes)

    async def write(self, batch: Sequence[Change]) -> bool:
        """Index the records of the batch, and all that were stored since the index was filled."""
        keys: dict[str, dict[str, None]] = {}
        for change in batch:
            if change.kind in self._indexes:
                keys.setdefault(change.kind, {})[change.key] = None
        for kind, changed in keys.items():
            await self._indexes[kind].put(list(changed))
        return bool(keys)
