"""Derived objects: views that can be made again from the tables at any time.

They are dropped before and made after every upgrade and never stand in a migration, because a view on a table makes
Alembic's batch mode fail. The table `derived` says what the last program made, so that the next one can drop it, even
what it does not know itself any more.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from forager.core.errors import StoreError
from forager.ledger.schema.namespace import add_public_view, drop_public_view

_CREATE = re.compile(r"CREATE VIEW ((?:public\.)?\w+)", re.IGNORECASE)
_PUBLIC = "public."
"""`CREATE VIEW public.markets AS SELECT * FROM markets` shows a table that operators write in `public`, unless it is
there already. Such a view accepts INSERT, UPDATE and DELETE."""
_OWN_FOLDER = Path(__file__).parents[1]
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class View:
    name: str
    sql: str
    for_readers: bool = False
    """Whether people query it, and not only this program: on PostgreSQL it can be read in `public` as well."""

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def views(dialect: str, folders: Iterable[Path]) -> list[View]:
    """The views of these folders, in the order of their making: `views.sqlite.sql` or `views.postgresql.sql`."""
    made: list[View] = []
    for folder in folders:
        file = folder / f"views.{dialect}.sql"
        if file.exists():
            made.extend(_split(file, for_readers=folder != _OWN_FOLDER))
    return made


def drop(connection: Connection) -> None:
    if not inspect(connection).has_table("derived"):
        return
    for (name,) in connection.execute(text("SELECT name FROM derived ORDER BY position DESC")).fetchall():
        try:
            drop_public_view(connection, name.removeprefix(_PUBLIC))
            if not name.startswith(_PUBLIC):
                connection.execute(text(f'DROP VIEW IF EXISTS "{name}"'))
        except DBAPIError as error:
            raise StoreError(
                f"The view {name} cannot be made anew, because something of yours stands on it: {error.orig}. "
                "Drop that, upgrade, and make it again."
            ) from error
    connection.execute(text("DELETE FROM derived"))


def make(connection: Connection, wanted: Sequence[View]) -> None:
    """Make the views, if the tables are there at all: a downgrade to nothing leaves none to make."""
    if not inspect(connection).has_table("derived"):
        return
    for position, view in enumerate(wanted):
        if not view.name.startswith(_PUBLIC):
            connection.exec_driver_sql(view.sql)
        if view.for_readers:
            add_public_view(connection, view.name.removeprefix(_PUBLIC))
        connection.execute(
            text("INSERT INTO derived (name, position, hash) VALUES (:name, :position, :hash)"),
            {"name": view.name, "position": position, "hash": view.hash},
        )


def are_current(connection: Connection, wanted: Sequence[View]) -> bool:
    rows = connection.execute(text("SELECT name, hash FROM derived ORDER BY position")).fetchall()
    return [(row[0], row[1]) for row in rows] == [(view.name, view.hash) for view in wanted]


def _split(file: Path, *, for_readers: bool) -> list[View]:
    """A statement ends with a semicolon at the end of a line."""
    statements = [part.strip() for part in _COMMENT.sub("", file.read_text("utf-8")).split(";\n") if part.strip()]
    sqls = []
    for sql in statements:
        name = _CREATE.match(sql)
        if name is None:
            raise StoreError(f"{file} may only create views, but has: {sql[:60]}")
        sqls.append(View(name[1], sql, for_readers))
    return sqls
