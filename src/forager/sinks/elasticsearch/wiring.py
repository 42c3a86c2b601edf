"""Builds the sink and its indexes from the settings."""

from collections.abc import Sequence

from forager.core.change import Change
from forager.core.errors import FieldError, Rejected
from forager.core.record import Record
from forager.core.sink import Batching, SinkRow
from forager.sdk.service import SinkService
from forager.sinks.elasticsearch.client import Client, SearchCluster, api_key, basic
from forager.sinks.elasticsearch.search import ElasticIndex
from forager.sinks.elasticsearch.settings import ElasticsearchSettings

# The Elasticsearch sink: every record that has changed goes to its index, as it is now.
#
# Documents are read from the ledger when they are sent, never from the change, and carry the number of the change as
# their version. So a replay or a late process never writes old over new.


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


OWN = "elasticsearch"


def from_settings(service: SinkService) -> SinkRow | None:
    """Return the sink `elasticsearch` if a cluster is set and a pipeline declares documents."""
    settings = service.settings.of(ElasticsearchSettings)
    return SinkRow(OWN, OWN) if settings.elasticsearch_url is not None and service.indexed else None


def build(service: SinkService, row: SinkRow) -> ElasticsearchSink:
    """Build the sink. Raises `Rejected` if the settings do not fit together."""
    indexes = [service.search_index(indexed.record) for indexed in service.indexed.values()]
    return ElasticsearchSink(row.name, [index for index in indexes if isinstance(index, ElasticIndex)])


def search(service: SinkService, record: type[Record]) -> ElasticIndex | None:
    """Return the index of a record class; None if no cluster is set, or if its pipeline declares no documents."""
    settings = service.settings.of(ElasticsearchSettings)
    indexed = service.indexed.get(record.kind)
    if settings.elasticsearch_url is None or indexed is None:
        return None
    client = Client(
        SearchCluster(
            settings.elasticsearch_url,
            settings.elasticsearch_timeout_seconds,
            _authorization(settings),
            settings.elasticsearch_ca_file,
        )
    )
    index = ElasticIndex(client, service.ledger, indexed, prefix=settings.elasticsearch_prefix)
    service.at_close(index.close)
    return index


def _authorization(settings: ElasticsearchSettings) -> str | None:
    username, password, key = (
        settings.elasticsearch_username,
        settings.elasticsearch_password,
        settings.elasticsearch_api_key,
    )
    if key is not None:
        if username is not None or password is not None:
            raise _wrong("elasticsearch_api_key", "give an API key, or a user and a password, not both")
        return api_key(key.get_secret_value())
    if username is None and password is None:
        return None
    if username is None or password is None:
        raise _wrong("elasticsearch_username", "user and password belong together")
    return basic(username, password.get_secret_value())


def _wrong(field: str, message: str) -> Rejected:
    return Rejected(f"{field}: {message}.", fields=[FieldError(field, message)])
