"""Derived objects: views, with their triggers and functions, that can be made again from the tables at any time.

They are dropped before and made after every upgrade and never stand in a migration, because a view on a table makes
Alembic's batch mode fail. The table `derived` lists what the last program made, so that the next one can drop all of
it, including objects that it no longer has itself.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from forager.core.errors import StoreError
from forager.ledger.schema.namespace import add_public_view, drop_public_view, own_schema

_CREATE = re.compile(r"CREATE (?:VIEW ((?:public\.)?\w+)|FUNCTION (\w+\(\)))", re.IGNORECASE)
_TRIGGER = re.compile(r"CREATE TRIGGER\b", re.IGNORECASE)
_PUBLIC = "public."
"""`CREATE VIEW public.markets AS SELECT * FROM markets` shows a table in `public`, in its own columns or others, unless
that name is taken there. A plain `SELECT *` accepts INSERT, UPDATE and DELETE; other views need triggers for them."""
_SCHEMA = "{schema}"
"""In a statement: the schema of the tables. Functions set it as their search path, whatever their callers have."""
_OWN_FOLDER = Path(__file__).parents[1]
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class View:
    """A view, or a function (its name ends with parentheses) that the triggers of later views call."""

    name: str
    sql: str
    for_readers: bool = False
    """Whether people query it, and not only this program: on PostgreSQL it can be read in `public` as well."""
    triggers: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        return hashlib.sha256("\n".join((self.sql, *self.triggers)).encode()).hexdigest()

    @property
    def is_function(self) -> bool:
        return self.name.endswith("()")


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
            if name.endswith("()"):
                connection.execute(text(f"DROP FUNCTION IF EXISTS {name}"))
                continue
            drop_public_view(connection, name.removeprefix(_PUBLIC))
            if not name.startswith(_PUBLIC):
                connection.execute(text(f'DROP VIEW IF EXISTS "{name}"'))
        except DBAPIError as error:
            raise StoreError(
                f"The view {name} cannot be made again, because something of yours stands on it: {error.orig}. "
                "Drop that, upgrade, and make it again."
            ) from error
    connection.execute(text("DELETE FROM derived"))


def make(connection: Connection, wanted: Sequence[View]) -> None:
    """Make the views, if the tables are there at all: a downgrade to nothing leaves none to make."""
    if not inspect(connection).has_table("derived"):
        return
    schema = own_schema(connection)
    for position, view in enumerate(wanted):
        if view.name.startswith(_PUBLIC):
            add_public_view(connection, view.name.removeprefix(_PUBLIC), view.sql, *view.triggers)
        else:
            for statement in (view.sql, *view.triggers):
                connection.exec_driver_sql(statement.replace(_SCHEMA, f'"{schema}"'))
            if view.for_readers and not view.is_function:
                add_public_view(
                    connection, view.name, f'CREATE VIEW public."{view.name}" AS SELECT * FROM "{view.name}"'
                )
        connection.execute(
            text("INSERT INTO derived (name, position, hash) VALUES (:name, :position, :hash)"),
            {"name": view.name, "position": position, "hash": view.hash},
        )


def are_current(connection: Connection, wanted: Sequence[View]) -> bool:
    rows = connection.execute(text("SELECT name, hash FROM derived ORDER BY position")).fetchall()
    return [(row[0], row[1]) for row in rows] == [(view.name, view.hash) for view in wanted]


def _split(file: Path, *, for_readers: bool) -> list[View]:
    """Read the objects of a file. A statement ends with a semicolon at the end of a line, outside of `$$ … $$`; a
    trigger belongs to the view before it."""
    made: list[View] = []
    for sql in _statements(_COMMENT.sub("", file.read_text("utf-8"))):
        if _TRIGGER.match(sql) and made:
            made[-1] = replace(made[-1], triggers=(*made[-1].triggers, sql))
        elif (name := _CREATE.match(sql)) is not None:
            made.append(View(name[1] or name[2], sql, for_readers))
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
