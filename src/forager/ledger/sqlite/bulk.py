"""Inserts many rows. A statement per row would cost more than the row itself, so rows are inserted 64 at a time, the
rest by powers of two.

A value that is the same in all rows is bound once per statement, because binding costs more than the row as well.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

TOGETHER = 64
MANY = 500
"""Rows per statement when thousands are written beside another busy thread, because each statement must reacquire the
interpreter. Preparing such a statement takes 12 ms and half a megabyte, once per pattern of shared values."""


def insert_many(
    db: sqlite3.Connection,
    into: str,
    rows: Sequence[Sequence[Any]],
    on_conflict: str = "",
    *,
    together: int = TOGETHER,
) -> None:
    """Insert rows, in their order. `into` names the table and its columns: "lanes (id, name)"."""
    first = len(rows) - len(rows) % together
    if first:
        _insert_blocks(db, into, list(zip(*rows, strict=True)), first, on_conflict, together)
    while rest := len(rows) - first:
        some = 1 << rest.bit_length() - 1
        statement = _statement(into, (_DIFFERENT,) * len(rows[0]), some, on_conflict)
        db.execute(statement, list(chain.from_iterable(rows[first : first + some])))
        first += some


def _insert_blocks(
    db: sqlite3.Connection, into: str, columns: Sequence[Sequence[Any]], count: int, on_conflict: str, together: int
) -> None:
    same = tuple([_all_same(column) for column in columns])
    shared = [column[0] for column, alike in zip(columns, same, strict=True) if alike is _SAME]
    differ = [column for column, alike in zip(columns, same, strict=True) if alike is _DIFFERENT]
    statement = _statement(into, same, together, on_conflict)
    for start in range(0, count, together):
        block = zip(*[column[start : start + together] for column in differ], strict=True)
        db.execute(statement, [*shared, *chain.from_iterable(block)])


def _all_same(column: Sequence[Any]) -> str:
    """Equal is the same here: what a column holds has one type by its affinity."""
    if column.count(column[0]) < len(column):
        return _DIFFERENT
    return _EMPTY if column[0] is None else _SAME


@lru_cache(maxsize=256)
def _statement(into: str, same: tuple[str, ...], rows: int, on_conflict: str) -> str:
    """Parameters: of each column that is the same in all rows its value, then the others, row by row."""
    shared = [alike is _SAME and same[: number + 1].count(_SAME) for number, alike in enumerate(same)]
    values, given = [], same.count(_SAME)
    for _ in range(rows):
        row = []
        for number, alike in zip(shared, same, strict=True):
            given += alike is _DIFFERENT
            row.append("NULL" if alike is _EMPTY else f"?{number or given}")
        values.append(f"({', '.join(row)})")
    return f"INSERT INTO {into} VALUES {', '.join(values)} {on_conflict}".rstrip()


_DIFFERENT, _SAME, _EMPTY = "different", "same", "empty"
"""What the rows of a block have in one column: values of their own, one value, or NULL."""
