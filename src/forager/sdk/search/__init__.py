"""Full-text search over a record table: the index that the sink `search` maintains, and the queries of an edge.

`index_of(record, database)` returns the index of a record class on the store at hand; both stores pass the same tests.
"""

from forager.core.database import Database
from forager.core.record import Record
from forager.sdk.search.index import SearchIndex, Store, TextIndex
from forager.sdk.search.postgres import PostgresStore
from forager.sdk.search.ranking import Hit, RankedHits
from forager.sdk.search.sqlite import SqliteStore

__all__ = ["Hit", "RankedHits", "SearchIndex", "TextIndex", "index_of"]


def index_of(record: type[Record], database: Database) -> SearchIndex:
    """Return the full-text index of a record class that declares `search`. Creates nothing until it is first used."""
    store: Store = (PostgresStore if database.dialect == "postgresql" else SqliteStore)(record, database)
    return SearchIndex(record, database, store)
