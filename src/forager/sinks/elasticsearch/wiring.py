"""How the sink and its indexes are built from the settings."""

from forager.core.errors import FieldError, Rejected
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.kit.service import SinkService
from forager.sinks.elasticsearch.client import Client, Cluster, api_key, basic
from forager.sinks.elasticsearch.index import ElasticIndex
from forager.sinks.elasticsearch.settings import ElasticsearchSettings
from forager.sinks.elasticsearch.sink import ElasticsearchSink

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
        Cluster(
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
