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
        statement = _statement(into, (False,) * len(rows[0]), some, on_conflict)
        db.execute(statement, list(chain.from_iterable(rows[first : first + some])))
        first += some


def _insert_blocks(
    db: sqlite3.Connection, into: str, columns: Sequence[Sequence[Any]], count: int, on_conflict: str, together: int
) -> None:
    same = tuple([_all_same(column) for column in columns])
    shared = [column[0] for column, alike in zip(columns, same, strict=True) if alike]
    differ = [column for column, alike in zip(columns, same, strict=True) if not alike]
    statement = _statement(into, same, together, on_conflict)
    for start in range(0, count, together):
        block = zip(*[column[start : start + together] for column in differ], strict=True)
        db.execute(statement, [*shared, *chain.from_iterable(block)])


def _all_same(column: Sequence[Any]) -> bool:
    """Return whether all values are equal. Equality is enough, because a column's affinity gives its values one
    type."""
    return column.count(column[0]) == len(column)


@lru_cache(maxsize=256)
def _statement(into: str, same: tuple[bool, ...], rows: int, on_conflict: str) -> str:
    """Build the statement. Its parameters: first the value of each shared column, then the others, row by row."""
    shared = [alike and sum(same[: number + 1]) for number, alike in enumerate(same)]
    values, given = [], sum(same)
    for _ in range(rows):
        row = []
        for number in shared:
            given += not number
            row.append(f"?{number or given}")
        values.append(f"({', '.join(row)})")
    return f"INSERT INTO {into} VALUES {', '.join(values)} {on_conflict}".rstrip()
