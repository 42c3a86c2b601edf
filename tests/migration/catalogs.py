"""The schema of a database, in a form in which two databases can be compared."""

import re
from typing import Any

from sqlalchemy import Connection, inspect, text

Snapshot = dict[str, Any]


def snapshot(connection: Connection) -> Snapshot:
    """Tables with columns and constraints, indexes, views, and the rows that a fresh store has."""
    tables = sorted(inspect(connection).get_table_names())
    own = _sqlite if connection.dialect.name == "sqlite" else _postgres
    return {
        "tables": {name: _table(connection, name) for name in tables},
        "rows": {name: _rows(connection, f"SELECT * FROM {name}") for name in ("tail", "alembic_version", "derived")},
        **own(connection),
    }


def names(connection: Connection) -> set[str]:
    """Return the names of tables and views."""
    look = inspect(connection)
    return {*look.get_table_names(), *look.get_view_names()}


def _table(connection: Connection, name: str) -> dict[str, Any]:
    look = inspect(connection)
    return {
        # Columns by name: one that a later migration adds is the last one, and statements name their columns.
        "columns": sorted(
            (c["name"], repr(c["type"]), c["nullable"], str(c["default"]), str(c.get("comment")))
            for c in look.get_columns(name)
        ),
        "key": look.get_pk_constraint(name),
        "unique": sorted((u["name"], u["column_names"]) for u in look.get_unique_constraints(name)),
        "foreign": sorted((f["name"], f["constrained_columns"], f["options"]) for f in look.get_foreign_keys(name)),
    }


def _sqlite(connection: Connection) -> Snapshot:
    rows = _rows(connection, "SELECT type, name, sql FROM sqlite_master WHERE type <> 'table'")
    return {"objects": [(kind, name, re.sub(r"\s+", " ", sql or "")) for kind, name, sql in rows]}


def _postgres(connection: Connection) -> Snapshot:
    here = "'public'::regnamespace"
    return {
        "indexes": _rows(connection, "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"),
        "constraints": _rows(
            connection, f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = {here}"
        ),
        "relations": _rows(
            connection, f"SELECT relname, relkind::text, reloptions::text FROM pg_class WHERE relnamespace = {here}"
        ),
        "views": _rows(connection, "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'"),
        "sequences": _rows(
            connection,
            "SELECT sequencename, data_type::text, start_value, increment_by, cycle, cache_size FROM pg_sequences"
            " WHERE schemaname = 'public'",
        ),
    }


def _rows(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in connection.execute(text(sql))), key=repr)
