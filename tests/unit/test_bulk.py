"""Rows arrive as they were given, however many there are and whatever they have in common."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from forager.ledger.sqlite.connection import TOGETHER, insert_many

COUNTS = (0, 1, 2, 3, TOGETHER - 1, TOGETHER, TOGETHER + 1, 2 * TOGETHER, 3 * TOGETHER + 7)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c BLOB, d TEXT UNIQUE)")
    yield db
    db.close()


def written(db: sqlite3.Connection) -> list[Any]:
    return db.execute("SELECT * FROM t ORDER BY id").fetchall()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("alike", [(), (1,), (2, 3), (1, 2, 3)])
def test_shared_and_different_values_of_rows(db: sqlite3.Connection, count: int, alike: tuple[int, ...]) -> None:
    rows: list[tuple[object, ...]] = [(n, f"a{n}", n * 7, bytes([n % 251]), f"d{n}") for n in range(count)]
    same = (None, "same", None, b"", "")
    rows = [tuple(same[i] if i in alike else value for i, value in enumerate(row)) for row in rows]
    insert_many(db, "t (id, a, b, c, d)", rows)
    assert written(db) == rows


@pytest.mark.parametrize("count", [9, 10, 11, 37])
def test_blocks_of_another_size(db: sqlite3.Connection, count: int) -> None:
    rows = [(n, "a", n, b"", str(n)) for n in range(count)]
    insert_many(db, "t (id, a, b, c, d)", rows, together=10)
    assert written(db) == rows


def test_columns_in_another_order_find_their_places(db: sqlite3.Connection) -> None:
    insert_many(db, "t (b, d, id, a)", [(5, str(n), n, "x") for n in range(TOGETHER)])
    assert written(db) == [(n, "x", 5, None, str(n)) for n in range(TOGETHER)]


def test_what_is_there_already_is_left_out(db: sqlite3.Connection) -> None:
    rows = [(n, "a", n, b"", str(n % 100)) for n in range(150)]
    insert_many(db, "t (id, a, b, c, d)", rows, "ON CONFLICT (d) DO NOTHING")
    assert written(db) == rows[:100]
