"""Writing many rows. A statement for each costs more than the rows do: 64 go together, the rest one by one."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

TOGETHER = 64


def insert_many(db: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
    """Insert rows, in their order. `into` names the table and its columns: "lanes (id, name)"."""
    if not rows:
        return
    whole = len(rows) - len(rows) % TOGETHER
    if whole:
        statement = _statement(into, len(rows[0]), TOGETHER, on_conflict)
        for first in range(0, whole, TOGETHER):
            db.execute(statement, list(chain.from_iterable(rows[first : first + TOGETHER])))
    if whole < len(rows):
        db.executemany(_statement(into, len(rows[0]), 1, on_conflict), rows[whole:])


@lru_cache(maxsize=256)
def _statement(into: str, columns: int, rows: int, on_conflict: str) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * rows)} {on_conflict}".rstrip()
