"""Pages by cursor: the next page starts after the last row of this one, so rows that are added meanwhile do not shift
it.

A query walks an index and reads a bounded number of rows. With a filter that no index serves, a page may therefore be
short, or even empty, and still have a next one.
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
"""Maximum rows read for one page when a filter has no index."""
_NUMBERS = frozenset({"id", "version", "ended_at", "by_number"})
"""Columns of lists' orders that hold integers; the others are text."""
_AT = "at_"


class Page(BaseModel, Generic[T]):
    """One page of a list."""

    model_config = ConfigDict(frozen=True)

    items: list[T] = Field(description="May be shorter than the limit even if more follow: see next_cursor.")
    next_cursor: str | None = Field(description="Pass it back to get the next page; null on the last page.")


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk along an index: `source` and `where` choose the rows, `order` is the index's order.

    `joins` and `only` are applied to the rows of the walk (named `w`) in an outer query, so that the planner cannot
    choose another index.
    """

    of: str
    """Name of the list. It is part of the cursor, so that another list refuses it."""
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
    """Return the rows of one page and the cursor of the next; None on the last page."""
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
    # A join may add columns of the same name, so the walk's order columns get their own aliases.
    places = ", ".join(f"w.{column} AS {_AT}{column}" for column in plan.order)
    # SQLite reads the inner query row by row, in its order; an outer ORDER BY would make it sort the whole window.
    is_sorted = database.dialect == "sqlite" and not plan.joins
    order = "" if is_sorted else f" ORDER BY {_directed(plan, 'w.')}"
    rows = await database.fetch(
        f"SELECT {plan.columns}, {places} FROM ({seen} LIMIT :most) w {plan.joins}{only}{order} LIMIT :page",
        {**values, "page": limit + 1},
    )
    if len(rows) > limit:
        return list(rows[:limit]), _cursor_at(plan, rows[limit - 1], _AT)
    if not plan.only and not plan.joins:
        return list(rows), None
    # A filter or a join may have dropped rows that were read. The next page still starts after the last row that was
    # read, if the read reached its limit.
    del values["most"]
    last = await database.fetch(f"{seen} LIMIT 1 OFFSET {most - 1}", values)
    return list(rows), _cursor_at(plan, last[0]) if last else None


def encode_cursor(of: str, order: Sequence[str], values: Sequence[Any]) -> str:
    """Encode where a page ended, with the list's name and order, so that another list refuses the cursor."""
    return base64.urlsafe_b64encode(orjson.dumps([of, *order, *values])).decode().rstrip("=")


def decode_cursor(of: str, order: Sequence[str], cursor: str) -> list[Any]:
    names = [of, *order]
    try:
        decoded = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        decoded = None
    if not isinstance(decoded, list) or decoded[: len(names)] != names or not _fits(order, decoded[len(names) :]):
        problem = FieldError("cursor", "is not a cursor of this list; start without one")
        raise Rejected(f"cursor: {problem.message}", fields=[problem])
    return decoded[len(names) :]


def _fits(order: Sequence[str], values: Sequence[Any]) -> bool:
    """Check a cursor's value, because a wrong type would appear as a database error and not as the caller's mistake."""
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
