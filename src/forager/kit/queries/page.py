"""Pages by cursor: the next page starts after the last row of this one, wherever new rows have appeared meanwhile.

A query walks an index and looks at a bounded number of rows. Where a filter is served by no index, a page may therefore
be short, or even empty, and still have a next one.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Row
from forager.core.errors import FieldError, Rejected

T = TypeVar("T")

MOST = 1_000
"""Rows of one page."""
WINDOW = 5_000
"""Rows that one page looks at, when a filter has no index."""
_NUMBERS = frozenset({"id", "version", "ended_at"})
"""Of the columns that lists are ordered by; the others are text."""
_AT = "at_"


class Page(BaseModel, Generic[T]):
    """A part of a list."""

    model_config = ConfigDict(frozen=True)

    items: list[T] = Field(description="May be shorter than asked for, even when more follow: see next_cursor.")
    next_cursor: str | None = Field(description="Give it back to get the next part; null when this was the last.")


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk along an index: `source` and `where` choose the rows, `order` is the index's order.

    `joins` and `only` are applied to what the walk finds (called `w`), so that no planner walks the wrong way.
    """

    of: str
    """Which list this is a part of. Its cursors say so, and another list refuses them."""
    source: str
    order: tuple[str, ...]
    """Columns of the source; together unique, never null."""
    where: tuple[str, ...] = ()
    descending: bool = False
    columns: str = "w.*"
    joins: str = ""
    only: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


async def walk(database: Database, plan: Walk, cursor: str | None, limit: int) -> tuple[list[Row], str | None]:
    """Rows of one page, and the cursor of the next."""
    limit = checked_limit(limit)
    most = WINDOW if plan.only else limit + 1
    values: dict[str, Any] = {**plan.values, "most": most}
    where = list(plan.where)
    if cursor is not None:
        start = decode_cursor(plan.of, plan.order, cursor)
        values.update({f"start{n}": value for n, value in enumerate(start)})
        marks = ", ".join(f":start{n}" for n in range(len(start)))
        where.append(f"({', '.join(plan.order)}) {'<' if plan.descending else '>'} ({marks})")
    seen = _seen(plan, where)
    only = f" WHERE {' AND '.join(plan.only)}" if plan.only else ""
    # What is shown may be another table's rows, with columns of the same name: the walk's own are named apart.
    places = ", ".join(f"w.{column} AS {_AT}{column}" for column in plan.order)
    rows = await database.fetch(
        f"SELECT {plan.columns}, {places} FROM ({seen} LIMIT :most) w {plan.joins}{only}"
        f" ORDER BY {_directed(plan, 'w.')} LIMIT :page",
        {**values, "page": limit + 1},
    )
    if len(rows) > limit:
        return list(rows[:limit]), _cursor_at(plan, rows[limit - 1], _AT)
    if not plan.only and not plan.joins:
        return list(rows), None
    # What was looked at is used up, though a filter or a join dropped some of it: the next page goes on behind its last
    # row, if it had that many.
    del values["most"]
    last = await database.fetch(f"{seen} LIMIT 1 OFFSET {most - 1}", values)
    return list(rows), _cursor_at(plan, last[0]) if last else None


def encode_cursor(of: str, order: Sequence[str], values: Sequence[Any]) -> str:
    """Where a page ended, of which list and in which order: the cursor of another list is then refused."""
    return base64.urlsafe_b64encode(orjson.dumps([of, *order, *values])).decode().rstrip("=")


def decode_cursor(of: str, order: Sequence[str], cursor: str) -> list[Any]:
    names = [of, *order]
    try:
        said = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        said = None
    if not isinstance(said, list) or said[: len(names)] != names or not _fits(order, said[len(names) :]):
        problem = FieldError("cursor", "is not one that this list gave out; start without a cursor")
        raise Rejected(f"cursor: {problem.message}", fields=[problem])
    return said[len(names) :]


def _fits(order: Sequence[str], values: Sequence[Any]) -> bool:
    """A value of the wrong type would be an error of the database, not of whoever sent it."""
    if len(values) != len(order):
        return False
    return all(
        type(value) is int and abs(value) < 1 << 63 if column in _NUMBERS else type(value) is str and "\0" not in value
        for column, value in zip(order, values, strict=True)
    )


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        problem = FieldError("limit", f"must be between 1 and {MOST}")
        raise Rejected(f"limit: {problem.message}", fields=[problem])
    return limit


def _seen(plan: Walk, where: Sequence[str]) -> str:
    chosen = f" WHERE {' AND '.join(where)}" if where else ""
    return f"{plan.source}{chosen} ORDER BY {_directed(plan)}"


def _directed(plan: Walk, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{column}{' DESC' if plan.descending else ''}" for column in plan.order)


def _cursor_at(plan: Walk, row: Row, prefix: str = "") -> str:
    return encode_cursor(plan.of, plan.order, [row[prefix + column] for column in plan.order])
