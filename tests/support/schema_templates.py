"""Schemas made once per test process: a fresh store is then a copy, which takes a tenth of the time.

The first test that needs a schema creates it and leaves a template behind; every later one copies the template. A
template on PostgreSQL belongs to one server and one set of tables.
"""

import hashlib
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from forager.ledger.schema.migrate import create_postgres, create_sqlite
from forager.settings import Settings
from tests.support.auditor import PostgresTables
from tests.support.postgres import Postgres
from tests.support.recycled import Recycled

_templates: dict[tuple[str, str], str] = {}
"""Maps a server and a set of tables to the name of the database to copy."""
_servers: dict[str, Postgres] = {}
_files: dict[str, bytes] = {}
"""Maps a set of tables to the embedded store to copy."""


def create_schema(url: str, catalog: Catalog) -> None:
    """Make the database at this URL with the schema of these pipelines, as `create_postgres` does in an empty one. What
    the database held before is gone; it need not exist yet, which saves making it twice."""
    server, name = _server(url), urlsplit(url).path[1:]
    key = (urlsplit(url).netloc, _tables(catalog))
    if key not in _templates:
        template = f"{name}_template"
        create_postgres(server.create_database(name=template), catalog)
        _templates[key] = template
    server.drop_database(url)
    server.create_database(_templates[key], name=name)


class RecycledByCatalog:
    """Databases with the schema of any pipelines, each lent to one test after another."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._recycled: dict[str, Recycled] = {}

    def lent(self, catalog: Catalog) -> AbstractContextManager[tuple[str, PostgresTables]]:
        """The URL of an empty ledger with the schema of these pipelines, and its tables, which stay open."""
        key = _tables(catalog)
        if key not in self._recycled:
            url = self._postgres.create_database()
            create_postgres(url, catalog)
            self._recycled[key] = Recycled(self._postgres, urlsplit(url).path[1:])
        return self._recycled[key].lent()

    def close(self) -> None:
        for each in self._recycled.values():
            each.close()


def create_store_file(path: Path, catalog: Catalog) -> None:
    """Make an embedded store with the schema of these pipelines, as `create_sqlite` does."""
    key = _tables(catalog)
    if key in _files:
        path.write_bytes(_files[key])
    else:
        create_sqlite(path, catalog)
        _files[key] = path.read_bytes()


def prepare_store(settings: Settings) -> None:
    """Make the store that an application with these settings would make when it opens, unless there is one. A data
    folder that does not exist yet is left to the application, which gives it its permissions."""
    path = settings.home / "ledger.db"
    if settings.database_url is None and settings.home.is_dir() and not path.exists():
        create_store_file(path, Catalog(build_pipelines(settings, all_features())))


def _server(url: str) -> Postgres:
    netloc = urlsplit(url).netloc
    if netloc not in _servers:
        _servers[netloc] = Postgres(urlunsplit(urlsplit(url)._replace(path="/postgres")))
    return _servers[netloc]


def _tables(catalog: Catalog) -> str:
    """Return a hash that distinguishes schemas: the pipelines (for their views and migrations) and their tables."""
    records = [(table.name, table.fields, [str(kind) for kind in table.types]) for table in catalog.records.values()]
    indexes = [(table.name, table.record.indexes) for table in catalog.records.values()]
    plain = sorted((table.table, repr(table.model_fields), repr(table.indexes)) for table in catalog.tables)
    parts = (sorted(catalog.pipelines), sorted(records), sorted(indexes, key=lambda each: each[0]), plain)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
