"""Schemas made once per test process: a fresh database is then a copy, which takes a tenth of the time.

The first test that needs a schema creates it and leaves a template behind; every later one copies the template. A
template belongs to one server and one set of tables.
"""

import hashlib
from urllib.parse import urlsplit, urlunsplit

from forager.ledger.catalog import Catalog
from forager.ledger.schema.migrate import create_postgres
from tests.support.postgres import Postgres

_templates: dict[tuple[str, str], str] = {}
"""By server and set of tables: the name of the database to copy."""


def create_schema(url: str, catalog: Catalog) -> None:
    """Give an empty database the schema of these pipelines, as `create_postgres` does."""
    server, name = _server(url), urlsplit(url).path[1:]
    key = (urlsplit(url).netloc, _tables(catalog))
    template = _templates.get(key)
    if template is None:
        create_postgres(url, catalog)
        template = f"{name}_template"
        server.execute(f'CREATE DATABASE "{template}" TEMPLATE "{name}"')
        _templates[key] = template
        return
    server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')


def _server(url: str) -> Postgres:
    return Postgres(urlunsplit(urlsplit(url)._replace(path="/postgres")))


def _tables(catalog: Catalog) -> str:
    """What distinguishes one schema from another: the pipelines (for their views and migrations) and their records."""
    records = [(table.name, table.fields, [str(kind) for kind in table.types]) for table in catalog.records.values()]
    indexes = [(table.name, table.record.indexes) for table in catalog.records.values()]
    said = repr((sorted(catalog.pipelines), sorted(records), sorted(indexes, key=lambda each: each[0])))
    return hashlib.sha256(said.encode()).hexdigest()
