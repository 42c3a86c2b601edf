"""Creates and migrates the schema. A new store is created directly; an existing one is migrated by Alembic.

Alembic and the declarations of the tables are imported only when something must be migrated or created: every start
comes here, and most find nothing to do.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from forager.core.errors import Rejected, StoreError, StoreOutdated
from forager.core.pipeline import Pipeline
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import (
    Store,
    add_public_view,
    create_namespace,
    drop_public_view,
    in_transaction,
    own_schema,
    parse_store,
    refuse_undeclared_pooler,
)
from forager.ledger.sqlite.lock import StoreLock

if TYPE_CHECKING:
    from alembic.config import Config


# Derived objects: views, with their triggers and functions, that can be made again from the tables at any time.
#
# They are dropped before and made after every upgrade and are never in a migration, because a view on a table makes
# Alembic's batch mode fail. The table `derived` lists what the last program made, so that the next one can drop all of
# it, including objects that it no longer has itself.


_CREATE = re.compile(r"CREATE (?:VIEW ((?:public\.)?\w+)|FUNCTION (\w+\(\)))", re.IGNORECASE)
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+)\s.*?\bON (\w+)", re.IGNORECASE | re.DOTALL)
_INSTEAD = re.compile(r"CREATE TRIGGER \w+\s+INSTEAD OF\b", re.IGNORECASE)
_PUBLIC = "public."
"""`CREATE VIEW public.markets AS SELECT * FROM markets` shows a table in `public`, in its own columns or others, unless
that name is taken there. A plain `SELECT *` accepts INSERT, UPDATE and DELETE; other views need triggers for them."""
_SCHEMA = "{schema}"
"""In a statement: the schema of the tables. Functions set it as their search path, whatever their callers have."""
_OWN_FOLDER = Path(__file__).parents[1]
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DerivedView:
    """A view, a function (its name ends with parentheses) that later triggers call, or the trigger of a table (its name
    is `TRIGGER ON TABLE`)."""

    name: str
    sql: str
    for_readers: bool = False
    """True if people query the view: on PostgreSQL it can then be read in `public` as well."""
    triggers: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        return hashlib.sha256("\n".join((self.sql, *self.triggers)).encode()).hexdigest()

    @property
    def is_view(self) -> bool:
        return not self.name.endswith("()") and " ON " not in self.name


# One text for both databases. A line `-- @sqlite` or `-- @postgresql` begins lines of one of them, up to `-- @both`.
# Macros are the few things that each writes in its own way.
_STORE = re.compile(r"^-- @(sqlite|postgresql|both)\n", re.MULTILINE)
_ARGUMENT = r"\(((?:[^()]|\([^()]*\))*)\)"
_MACROS = {
    # A column of Unix milliseconds, shown as a time.
    r"\$time" + _ARGUMENT: {
        "sqlite": r"strftime('%Y-%m-%dT%H:%M:%fZ', \1 / 1000.0, 'unixepoch')",
        "postgresql": r"to_timestamp(\1 / 1000.0)",
    },
    # A number in a JSON object: `->>` gives a text on PostgreSQL only.
    r"\$int" + _ARGUMENT: {"sqlite": r"\1", "postgresql": r"CAST(\1 AS bigint)"},
    # A JSON column as a part of a JSON object.
    r"\$json" + _ARGUMENT: {"sqlite": r"json(\1)", "postgresql": r"\1"},
    # The stored bytes of a task, as JSON and as text.
    r"\$body" + _ARGUMENT: {"sqlite": r"CAST(\1 AS TEXT)", "postgresql": r"convert_from(\1, 'UTF8')::json"},
    r"\$text" + _ARGUMENT: {"sqlite": r"CAST(\1 AS TEXT)", "postgresql": r"convert_from(\1, 'UTF8')"},
    r"\$object\b": {"sqlite": "json_object", "postgresql": "json_build_object"},
    r"\$greatest\b": {"sqlite": "max", "postgresql": "greatest"},
    # The present moment in Unix milliseconds.
    r"\$now\b": {
        "sqlite": "(julianday('now') - 2440587.5) * 86400000",
        "postgresql": "extract(epoch FROM clock_timestamp()) * 1000",
    },
}


def views(dialect: str, folders: Iterable[Path]) -> list[DerivedView]:
    """Return the views in `views.sql` of these folders, in the order in which they are created."""
    made: list[DerivedView] = []
    for folder in folders:
        file = folder / "views.sql"
        if file.exists():
            made.extend(_split(file, dialect, for_readers=folder != _OWN_FOLDER))
    return made


def sql_for(dialect: str, script: str) -> str:
    """Return the lines of a `views.sql` for one database, with its macros expanded."""
    parts = _STORE.split(script)
    lines = parts[0] + "".join(
        part for store, part in zip(parts[1::2], parts[2::2], strict=True) if store in (dialect, "both")
    )
    for macro, text_of in _MACROS.items():
        lines = re.sub(macro, text_of[dialect], lines)
    return lines


def drop(connection: Connection) -> None:
    if not inspect(connection).has_table("derived"):
        return
    for (name,) in connection.execute(text("SELECT name FROM derived ORDER BY position DESC")).fetchall():
        try:
            if name.endswith("()"):
                connection.execute(text(f"DROP FUNCTION IF EXISTS {name}"))
                continue
            if " ON " in name:
                _drop_trigger(connection, *name.split(" ON "))
                continue
            drop_public_view(connection, name.removeprefix(_PUBLIC))
            if not name.startswith(_PUBLIC):
                connection.execute(text(f'DROP VIEW IF EXISTS "{name}"'))
        except DBAPIError as error:
            raise StoreError(
                f"The view {name} cannot be made again, because another object of yours depends on it: {error.orig}. "
                "Drop that, upgrade, and make it again."
            ) from error
    connection.execute(text("DELETE FROM derived"))


def _drop_trigger(connection: Connection, name: str, table: str) -> None:
    """Drop the trigger of a table. Where a downgrade has removed the table, its trigger went with it."""
    if connection.dialect.name == "sqlite":
        connection.execute(text(f'DROP TRIGGER IF EXISTS "{name}"'))
    elif inspect(connection).has_table(table):
        connection.execute(text(f'DROP TRIGGER IF EXISTS "{name}" ON "{table}"'))


def make(connection: Connection, wanted: Sequence[DerivedView]) -> None:
    """Create the views, unless the tables do not exist (after a downgrade to nothing)."""
    if not inspect(connection).has_table("derived"):
        return
    schema = own_schema(connection)
    for position, view in enumerate(wanted):
        if view.name.startswith(_PUBLIC):
            add_public_view(connection, view.name.removeprefix(_PUBLIC), view.sql, *view.triggers)
        else:
            for statement in (view.sql, *view.triggers):
                connection.exec_driver_sql(statement.replace(_SCHEMA, f'"{schema}"'))
            if view.for_readers and view.is_view:
                add_public_view(
                    connection, view.name, f'CREATE VIEW public."{view.name}" AS SELECT * FROM "{view.name}"'
                )
        connection.execute(
            text("INSERT INTO derived (name, position, hash) VALUES (:name, :position, :hash)"),
            {"name": view.name, "position": position, "hash": view.hash},
        )


def are_current(connection: Connection, wanted: Sequence[DerivedView]) -> bool:
    rows = connection.execute(text("SELECT name, hash FROM derived ORDER BY position")).fetchall()
    return [(row[0], row[1]) for row in rows] == [(view.name, view.hash) for view in wanted]


def _split(file: Path, dialect: str, *, for_readers: bool) -> list[DerivedView]:
    """Read the objects of a file. A statement ends with a semicolon at the end of a line, outside of `$$ … $$`; an
    INSTEAD OF trigger belongs to the view before it. In the body of a trigger on SQLite, a line begins with the
    semicolon instead."""
    made: list[DerivedView] = []
    for sql in _statements(_COMMENT.sub("", sql_for(dialect, file.read_text("utf-8")))):
        if _INSTEAD.match(sql) and made:
            made[-1] = replace(made[-1], triggers=(*made[-1].triggers, sql))
        elif (trigger := _TRIGGER.match(sql)) is not None:
            made.append(DerivedView(f"{trigger[1]} ON {trigger[2]}", sql, for_readers))
        elif (name := _CREATE.match(sql)) is not None:
            made.append(DerivedView(name[1] or name[2], sql, for_readers))
        else:
            raise StoreError(f"{file} may only create views, functions and triggers, but has: {sql[:60]}")
    return made


def _statements(script: str) -> list[str]:
    whole: list[str] = []
    begun = ""
    for part in script.split(";\n"):
        begun += part
        if begun.count("$$") % 2:
            begun += ";\n"
            continue
        whole.append(begun.strip())
        begun = ""
    return [each for each in whole if each]


# The revisions of the schema, read from the migrations' files without Alembic, because every start needs them.
#
# One branch for the ledger itself and one for each pipeline, in `migrations/` of its own folder.


SCRIPTS = Path(__file__).parents[1] / "migrations"
CORE = SCRIPTS / "versions"


def locations(pipelines: Iterable[Pipeline]) -> list[Path]:
    """Return the folders of migrations: the ledger's own first, then those of the pipelines."""
    return [CORE, *(m for p in pipelines if (m := _folder(p) / "migrations").is_dir())]


def home(location: Path) -> Path:
    """Return the folder that owns these migrations; it also holds their views."""
    return location.parents[1] if location == CORE else location.parent


def heads(places: Sequence[Path]) -> frozenset[str]:
    """Return the newest revision of each branch: the contents of `alembic_version` in an up-to-date store."""
    known: set[str] = set()
    passed: set[str] = set()
    for file in _files(places):
        revision = _read(file)
        known.update(revision["revision"])
        passed.update(revision["down_revision"], revision["depends_on"])
    return frozenset(known - passed)


def known(places: Sequence[Path]) -> frozenset[str]:
    return frozenset(name for file in _files(places) for name in _read(file)["revision"])


def _files(places: Sequence[Path]) -> list[Path]:
    return [file for place in places for file in sorted(place.glob("*.py"))]


def _folder(pipeline: Pipeline) -> Path:
    """Return a pipeline's folder: that of its task classes, which, unlike `plan` and `params`, are never wrapped."""
    module = sys.modules.get(pipeline.steps[0].task.__module__) if pipeline.steps else None
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else Path("/nonexistent")


def _read(file: Path) -> dict[str, tuple[str, ...]]:
    """`revision`, `down_revision` and `depends_on` of a migration: literals at the top of its file.

    Only that top is parsed. Every start of a process reads all migrations, and parsing their functions took a third of
    the time that a command spends in the ledger.
    """
    values: dict[str, tuple[str, ...]] = {"revision": (), "down_revision": (), "depends_on": ()}
    for node in ast.parse(file.read_text("utf-8").partition("\ndef ")[0]).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in values:
            value = ast.literal_eval(node.value)
            values[node.targets[0].id] = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    return values


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
    """Return the revisions that the store is at, one per branch; none in an empty store."""
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
    """Drop the views, run the migration, and create the views again. Used by our commands and by plain `alembic`."""
    drop(connection)
    run()
    make(connection, _views_for_what_is_there(connection, places))


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
        raise Rejected(f"The schema cannot be migrated: {error}. `forager db current` shows its revisions.") from error


def _create_if_empty(connection: Connection, catalog: Catalog) -> bool:
    """True if the store was empty and now has everything."""
    if connection.dialect.name == "postgresql":
        create_namespace(connection)
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        return False
    from forager.ledger.schema.tables import create_tables  # every table is declared there: not at every start

    create_tables(connection, catalog, tables)
    connection.execute(text("INSERT INTO tail (one, change, claim) VALUES (1, 0, 0)"))
    places = locations(catalog.pipelines.values())
    _stamp(connection, heads(places))
    make(connection, views(connection.dialect.name, map(home, places)))
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
    wanted = views(connection.dialect.name, map(home, places))
    return there == heads(places) and are_current(connection, wanted)


def _check(connection: Connection, catalog: Catalog) -> None:
    places = locations(catalog.pipelines.values())
    there, wanted = _versions(connection), heads(places)
    _refuse_unknown(there, places)
    if there != wanted:
        stands = ", ".join(sorted(there)) or "nothing"
        raise StoreOutdated(
            f"The store's schema is at {stands}; this program needs {', '.join(sorted(wanted))}. "
            "Stop other processes that use it and run `forager db upgrade`."
        )


def _refuse_unknown(there: frozenset[str], places: Sequence[Path]) -> None:
    if unknown := there - known(places):
        raise StoreOutdated(
            f"The store is at the schema revision {', '.join(sorted(unknown))}, which this Forager does not have."
            " If a newer Forager or one with more pipelines made the store, install that version again. A store of a"
            " development version from before the first release cannot be upgraded: start with a new home (--home or"
            " FORAGER_HOME; on PostgreSQL, an empty database or another FORAGER_DATABASE_SCHEMA)."
        )


def _views_for_what_is_there(connection: Connection, places: Sequence[Path]) -> list[DerivedView]:
    """After a downgrade, the views of a branch that is not at its head would not fit its tables."""
    there = _versions(connection)
    whole = [place for place in places if heads([place]) <= there]
    if places and places[0] not in whole:
        return []  # the pipelines' views stand on the ledger's tables
    return views(connection.dialect.name, map(home, whole))
