"""Writing many rows. A statement for each costs more than the rows do: they go together by 64, the rest by halves."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

TOGETHER = 64


def insert_many(db: sqlite3.Connection, into: str, rows: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
    """Insert rows, in their order. `into` names the table and its columns: "lanes (id, name)"."""
    first, together = 0, TOGETHER
    while first < len(rows):
        while together > len(rows) - first:
            together //= 2
        statement = _statement(into, len(rows[0]), together, on_conflict)
        db.execute(statement, list(chain.from_iterable(rows[first : first + together])))
        first += together


@lru_cache(maxsize=256)
def _statement(into: str, columns: int, rows: int, on_conflict: str) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * rows)} {on_conflict}".rstrip()
