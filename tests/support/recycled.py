"""Databases on PostgreSQL that serve one test after another: emptied instead of dropped and created again.

Making and dropping a database, and connecting to one that no process has seen before, takes more CPU time than most
tests of a ledger. A database is lent again only if the last test has left nothing but rows in it: the same schema, no
connection, and little space to search. Any other is dropped, and so is every database of a role that is no superuser:
such a role cannot empty tables that refer to each other in one statement.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import asyncpg
import orjson

from tests.support.auditor import PostgresTables
from tests.support.pgbouncer import EVERYWHERE
from tests.support.postgres import Postgres

MOST_BYTES = 4 << 20
"""Rows that were deleted still take space, which a scan reads: a database with more than this is dropped."""
MOST_TESTS = 100
LEAVE_SECONDS = 2.0
"""Seconds that a closed connection may take to end."""
_TICK = 0.002

_USERS = "oid >= 16384"
_LEFT = f"""SELECT
  (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL($1::int[])) AS connections,
  (SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE {_USERS} AND relkind = 'r')::bigint AS bytes"""
# A row of a catalog that was changed has another transaction; ANALYZE leaves rows of its own.
_CATALOGS = {
    "pg_class": _USERS,
    "pg_attribute": "attrelid >= 16384",
    "pg_constraint": _USERS,
    "pg_index": "indexrelid >= 16384",
    "pg_proc": _USERS,
    "pg_trigger": _USERS,
    "pg_type": _USERS,
    "pg_enum": _USERS,
    "pg_namespace": _USERS,
    "pg_statistic": "true",
    "pg_db_role_setting": "true",
    "pg_default_acl": "true",
    "pg_largeobject_metadata": "true",
}
_SCHEMA = " UNION ALL ".join(
    f"SELECT '{name}' AS catalog, count(*) AS n, sum(xmin::text::bigint) AS made FROM {name} WHERE {which}"
    for name, which in _CATALOGS.items()
)


class Recycled:
    """Copies of one template. `asked` counts the queries of the auditor, as in `PostgresTables`."""

    def __init__(self, postgres: Postgres, template: str, asked: Counter[str] | None = None) -> None:
        self._postgres = postgres
        self._template = template
        self._asked = asked
        self._idle: list[_Kept] = []

    @contextlib.contextmanager
    def lent(self) -> Iterator[tuple[str, PostgresTables]]:
        """The URL of a database as it is in the template, and its tables for the auditor, which stay open."""
        kept = self._idle.pop() if self._idle else _Kept(self._postgres, self._template, self._asked)
        try:
            yield kept.url, kept.tables
        except BaseException:
            kept.drop()
            raise
        if kept.empty():
            self._idle.append(kept)
        else:
            kept.drop()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().drop()


class _Kept:
    """One database with two connections: of the auditor, and of the one that empties it."""

    def __init__(self, postgres: Postgres, template: str, asked: Counter[str] | None) -> None:
        self._postgres = postgres
        self.url = postgres.create_database(template)
        self.tables = PostgresTables(self.url, asked)
        self._tests = 0
        self._own: PostgresTables | None = _emptier(self.url)
        if self._own is not None:
            self._remember(self._own)

    def empty(self) -> bool:
        """Make the database what it was in the template; return whether that was possible."""
        self._tests += 1
        # A pooler stays connected.
        if self._own is None or self._tests >= MOST_TESTS or os.environ.get(EVERYWHERE):
            return False
        try:
            self.tables.reset()
            if not self._is_left(self._own) or self._own.read(_SCHEMA) != self._schema:
                return False
            for statement in self._empty:
                self._own.read(statement)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False  # the server was restarted
        return True

    def drop(self) -> None:
        for each in filter(None, (self.tables, self._own)):
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                each.close()
        self._postgres.drop_database(self.url)

    def _remember(self, own: PostgresTables) -> None:
        """Note what the template holds, to compare it after a test and to restore it."""
        self._pids = [each.read("SELECT pg_backend_pid() AS pid")[0]["pid"] for each in (self.tables, own)]
        self._schema = own.read(_SCHEMA)
        self._empty = _statements(own)

    def _is_left(self, own: PostgresTables) -> bool:
        deadline = time.monotonic() + LEAVE_SECONDS
        question = _LEFT.replace("$1", f"'{{{self._pids[0]}, {self._pids[1]}}}'")
        while (left := own.read(question)[0])["connections"]:
            if time.monotonic() > deadline:
                return False
            time.sleep(_TICK)
        return bool(left["bytes"] <= MOST_BYTES)


def _emptier(url: str) -> PostgresTables | None:
    """Connect without foreign keys, so that all tables can be emptied at once. None if this role may not do that."""
    try:
        return PostgresTables(url, server_settings={"session_replication_role": "replica"})
    except asyncpg.InsufficientPrivilegeError:
        return None


def _statements(own: PostgresTables) -> list[str]:
    """Each is planned once. A statement may not delete a row and insert it again, so there are two."""
    names = [
        row["tablename"]
        for row in own.read("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1")
    ]
    sequences = own.read("SELECT sequencename AS name, start_value AS first, last_value AS last FROM pg_sequences")
    deletes = ", ".join(f'd{number} AS (DELETE FROM "{name}")' for number, name in enumerate(names))
    restarts = ", ".join(_restart(row) for row in sequences) or "1"
    given = {name: own.read(f'SELECT to_jsonb(t)::text AS row FROM "{name}" t') for name in names}
    inserts = [_insert(name, rows) for name, rows in given.items() if rows]
    return [f"WITH {deletes} SELECT {restarts}", *inserts]


def _restart(sequence: dict[str, Any]) -> str:
    """A sequence that has given nothing yet has no last value."""
    value, called = (sequence["first"], "false") if sequence["last"] is None else (sequence["last"], "true")
    return f"setval('\"{sequence['name']}\"', {value}, {called})"


def _insert(name: str, rows: list[dict[str, Any]]) -> str:
    values = orjson.dumps([orjson.loads(row["row"]) for row in rows]).decode().replace("'", "''")
    return (
        f'INSERT INTO "{name}" OVERRIDING SYSTEM VALUE'
        f" SELECT * FROM jsonb_populate_recordset(NULL::\"{name}\", '{values}')"
    )
