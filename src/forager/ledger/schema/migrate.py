"""Creates and migrates the schema. A new store is created directly; an existing one is migrated by Alembic.

Alembic and the declarations of the tables are imported only when something must be migrated or created: every start
comes here, and most find nothing to do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text

from forager.core.errors import Rejected, StoreOutdated
from forager.ledger.catalog import Catalog
from forager.ledger.schema import derived
from forager.ledger.schema.connect import Store, in_transaction, parse_store
from forager.ledger.schema.namespace import create_namespace
from forager.ledger.schema.pooler import refuse_undeclared_pooler
from forager.ledger.schema.revisions import SCRIPTS, heads, home, known, locations
from forager.ledger.sqlite.lock import StoreLock

if TYPE_CHECKING:
    from alembic.config import Config


def ensure_sqlite(path: Path, catalog: Catalog) -> None:
    """The embedded store, ready for this program: created when absent, upgraded when older."""
    if not in_transaction(path, lambda db: _create_if_empty(db, catalog) or _is_current(db, catalog)):
        upgrade(path, catalog)


def ensure_postgres(url: str, catalog: Catalog, *, may_create: bool = True, pooled: bool = False) -> None:
    """An empty database gets the schema; an older one is left alone, because other processes may be using it.

    Raises `StoreOutdated` if the schema is older or newer than this program's, or missing and not to be created; and
    `Rejected` if a connection pooler is in between although `pooled` is false.
    """

    def create_or_check(db: Connection) -> None:
        if not pooled:
            refuse_undeclared_pooler(db)
        if not may_create and not _versions(db):
            raise StoreOutdated(
                "This database has no Forager tables. Check FORAGER_DATABASE_URL. `forager up` and "
                "`forager db upgrade` create them."
            )
        if not _create_if_empty(db, catalog):
            _check(db, catalog)

    in_transaction(url, create_or_check)


def create(store: Store, catalog: Catalog) -> None:
    """The whole schema in an empty store, in one go: what the sum of the migrations would make."""
    if not in_transaction(store, lambda db: _create_if_empty(db, catalog)):
        raise StoreOutdated("The store has a schema already: `forager db upgrade` brings it up to date.")


def create_sqlite(path: Path, catalog: Catalog) -> None:
    create(path, catalog)


def create_postgres(url: str, catalog: Catalog) -> None:
    create(url, catalog)


def upgrade(store: Store, catalog: Catalog, revision: str = "heads") -> None:
    from alembic import command

    _migrate(store, catalog, lambda config: command.upgrade(config, revision))


def downgrade(store: Store, catalog: Catalog, revision: str) -> None:
    """Back to a revision; `<branch>@base` undoes one branch, `base` everything. What the new columns held is lost.

    Views come back with the `upgrade` of the program that fits the older schema.
    """
    from alembic import command

    _migrate(store, catalog, lambda config: command.downgrade(config, revision))


def current(store: Store) -> list[str]:
    """The revisions that the store stands at, one per branch; none in an empty store."""
    return in_transaction(store, lambda db: sorted(_versions(db)))


def check(store: Store, catalog: Catalog) -> None:
    """Raise `StoreOutdated`, with what to do, unless the store's schema is exactly this program's."""
    in_transaction(store, lambda db: _check(db, catalog))


def alembic_config(places: Sequence[Path], connection: Connection | None = None) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _literal(SCRIPTS))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(_literal, places)))
    config.attributes["connection"] = connection
    return config


def migrate_connection(connection: Connection, places: Sequence[Path], run: Callable[[], Any]) -> None:
    """What both our commands and plain `alembic` do around a migration: views away, run, views back."""
    derived.drop(connection)
    run()
    derived.make(connection, _views_for_what_is_there(connection, places))


@contextmanager
def alone(store: Store) -> Iterator[None]:
    """Lock the embedded store, so that its schema does not change while another process uses it."""
    store = parse_store(store)
    if not isinstance(store, Path):
        yield
        return
    lock = StoreLock(store.parent / "lock")
    lock.take()
    try:
        yield
    finally:
        lock.release()


def _literal(path: Path) -> str:
    """Alembic's configuration would read a percent sign in a path as a variable."""
    return str(path).replace("%", "%%")


def _migrate(store: Store, catalog: Catalog, run: Callable[["Config"], None]) -> None:
    from alembic.util import CommandError

    places = locations(catalog.pipelines.values())
    try:
        with alone(store):
            in_transaction(store, lambda db: run(alembic_config(places, db)))
    except CommandError as error:
        raise Rejected(f"The schema cannot be moved: {error}. See `forager db current` for where it stands.") from error


def _create_if_empty(connection: Connection, catalog: Catalog) -> bool:
    """True if the store was empty and now has everything."""
    if connection.dialect.name == "postgresql":
        create_namespace(connection)
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        return False
    from forager.ledger.schema.new_store import create_tables  # every table is declared there: not at every start

    create_tables(connection, catalog, tables)
    connection.execute(text("INSERT INTO tail (one, change, claim) VALUES (1, 0, 0)"))
    places = locations(catalog.pipelines.values())
    _stamp(connection, heads(places))
    derived.make(connection, derived.views(connection.dialect.name, map(home, places)))
    return True


def _stamp(connection: Connection, revisions: frozenset[str]) -> None:
    """Alembic's own table, written as Alembic writes it."""
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    rows = [{"revision": revision} for revision in sorted(revisions)]
    connection.execute(text("INSERT INTO alembic_version (version_num) VALUES (:revision)"), rows)


def _versions(connection: Connection) -> frozenset[str]:
    if not inspect(connection).has_table("alembic_version"):
        return frozenset()
    return frozenset(row[0] for row in connection.execute(text("SELECT version_num FROM alembic_version")))


def _is_current(connection: Connection, catalog: Catalog) -> bool:
    """Schema and views. Raises if the store is newer than this program: it must not be touched then."""
    places = locations(catalog.pipelines.values())
    there = _versions(connection)
    _refuse_unknown(there, places)
    wanted = derived.views(connection.dialect.name, map(home, places))
    return there == heads(places) and derived.are_current(connection, wanted)


def _check(connection: Connection, catalog: Catalog) -> None:
    places = locations(catalog.pipelines.values())
    there, wanted = _versions(connection), heads(places)
    _refuse_unknown(there, places)
    if there != wanted:
        stands = ", ".join(sorted(there)) or "nothing"
        raise StoreOutdated(
            f"The store's schema stands at {stands}; this program needs {', '.join(sorted(wanted))}. "
            "Stop other processes that use it and run `forager db upgrade`."
        )


def _refuse_unknown(there: frozenset[str], places: Sequence[Path]) -> None:
    if unknown := there - known(places):
        raise StoreOutdated(
            f"The store was made by a newer Forager, or by one with more pipelines: this one does not know the revision"
            f" {', '.join(sorted(unknown))}. Install the version that was used before."
        )


def _views_for_what_is_there(connection: Connection, places: Sequence[Path]) -> list[derived.View]:
    """After a downgrade, the views of a branch that does not stand at its head would not fit its tables."""
    there = _versions(connection)
    whole = [place for place in places if heads([place]) <= there]
    if places and places[0] not in whole:
        return []  # the pipelines' views stand on the ledger's tables
    return derived.views(connection.dialect.name, map(home, whole))
