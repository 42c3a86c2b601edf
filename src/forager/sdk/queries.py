"""The query kit: building blocks for a pipeline's `reports.py`.

`Database` is the port that the ledger implements; SQL is portable, with `:name` values. `walk` reads one page of a list
along an index and returns the cursor of the next one.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Row
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.record import Clear, Record
from forager.core.table import Effect, TableRow

# Converts stored values for reports: milliseconds to times, stored JSON to values. Pure.


def at(ms: int | None) -> datetime | None:
    """Convert Unix milliseconds to a UTC time; None stays None."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def loads(value: Any) -> Any:
    """Decode a JSON column. PostgreSQL returns text, SQLite text or bytes; any other value is returned as it is."""
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def task_body(body: bytes) -> Any:
    """Decode a task's stored input. Returns the text if it is not JSON, so that an unreadable row can still be
    shown."""
    try:
        return orjson.loads(body)
    except ValueError:
        return bytes(body).decode(errors="replace")


# Maps Python types to columns: the column's type, and how values are encoded and decoded. Pure.
#
# Points in time are Unix milliseconds. Money is a scaled integer, because decimals kept as text sort wrongly on SQLite.
# `Literal` and `StrEnum` are text, so that filters and indexes can use them. Everything that is not a scalar is a JSON
# leaf.


MONEY_SCALE = 10_000

Encoder = Callable[[Any], Any]
Kind = Literal["text", "boolean", "bigint", "float", "json"]


class Column(NamedTuple):
    """One column of a class's table."""

    kind: Kind
    encode: Encoder | None
    """None if the value is stored as it is."""
    decode: Encoder | None
    show: Encoder | None = None
    """Converts the stored value to its JSON form; None if they are the same."""
    nullable: bool = False
    clearable: bool = False
    """True if the field accepts `CLEAR`."""

    def encoded(self, value: Any) -> Any:
        return value if value is None or self.encode is None else self.encode(value)

    def decoded(self, value: Any) -> Any:
        return value if value is None or self.decode is None else self.decode(value)


@lru_cache(maxsize=1024)
def columns_of(model: type[BaseModel]) -> dict[str, Column]:
    """Return the columns of a class by field name."""
    return {name: _column(info.annotation) for name, info in model.model_fields.items()}


def _column(annotation: Any) -> Column:
    choices = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return _codec(annotation)._replace(nullable=type(None) in choices, clearable=Clear in choices)


def _codec(annotation: Any) -> Column:
    kind = bare_type(annotation)
    if get_origin(kind) is Literal:
        kinds = {type(word) for word in get_args(kind)}
        kind = kinds.pop() if len(kinds) == 1 else object
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Column("text", str, kind)
    for known, column in _SCALARS.items():
        if kind is known:
            return column
    return Column("json", lambda value: orjson.dumps(value).decode(), loads, loads)


def bare_type(annotation: Any) -> Any:
    """Return the type without None, `Clear` and annotations; `object` for a union of several types."""
    if get_origin(annotation) is Annotated:
        return bare_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        kept = [a for a in get_args(annotation) if a is not type(None) and a is not Clear]
        return bare_type(kept[0]) if len(kept) == 1 else object
    return annotation


def _milliseconds(value: datetime) -> int:
    return round(value.timestamp() * 1000)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _iso(milliseconds: int) -> str:
    return _time(milliseconds).isoformat().replace("+00:00", "Z")


def _money(scaled: int) -> Decimal:
    return Decimal(scaled) / MONEY_SCALE


_SCALARS: dict[type, Column] = {
    str: Column("text", None, None),
    # SQLite returns a stored boolean as a number.
    bool: Column("boolean", None, bool, bool),
    int: Column("bigint", None, None),
    float: Column("float", None, None),
    Decimal: Column("bigint", lambda d: int(d * MONEY_SCALE), _money, lambda n: str(_money(n))),
    datetime: Column("bigint", _milliseconds, _time, _iso),
    date: Column("text", date.isoformat, date.fromisoformat),
}


# Reads and writes plain tables through the query port, for a pipeline's admin routes and commands.
#
# A step changes a plain table with `Done(effects=…)`; the ledger applies effects with the statements of this file.


R = TypeVar("R", bound=TableRow)


async def read_rows(
    db: Database, row: type[R], where: str = "TRUE", values: Mapping[str, Any] | None = None, *, order: str = ""
) -> list[R]:
    """Return the rows that meet a condition in portable SQL, sorted by the table's key unless another order is given.

    Values in the condition must be in their stored form: milliseconds, scaled money
    (`columns_of(row)[name].encoded(…)`).
    """
    by = order or ", ".join(f'"{column}"' for column in row.key)
    rows = await db.fetch(f"SELECT {_names(row)} FROM {row.table} WHERE {where} ORDER BY {by}", values)
    return [decoded(row, each) for each in rows]


async def one_row(db: Database, row: type[R], **key: Any) -> R | None:
    """Return the row with this key, or None."""
    write = RowWrite.of(Effect(row, key))
    rows = await db.fetch(f"SELECT {_names(row)} FROM {row.table} WHERE {write.where}", write.values)
    return decoded(row, rows[0]) if rows else None


async def insert_row(db: Database, row: TableRow) -> bool:
    """Insert a row. Returns False, and writes nothing, if its key exists. A None takes the column's default."""
    given = {name: value for name in type(row).model_fields if (value := getattr(row, name)) is not None}
    columns = columns_of(type(row))
    names, marks = ", ".join(f'"{name}"' for name in given), ", ".join(f":{name}" for name in given)
    key = ", ".join(f'"{column}"' for column in row.key)
    written = await db.write(
        f"INSERT INTO {row.table} ({names}) VALUES ({marks}) ON CONFLICT ({key}) DO NOTHING RETURNING 1 AS one",
        {name: columns[name].encoded(value) for name, value in given.items()},
    )
    return bool(written)


async def change_row(db: Database, effect: Effect) -> bool:
    """Apply an effect in its own transaction. Returns False if there is no such row and the effect does not create
    one."""
    write = RowWrite.of(effect)
    return bool(await db.write(f"{write.sql} RETURNING 1 AS one", write.values))


async def remove_row(db: Database, row: type[TableRow], **key: Any) -> bool:
    """Delete the row with this key. Returns False if no row has it."""
    write = RowWrite.of(Effect(row, key))
    return bool(await db.write(f"DELETE FROM {row.table} WHERE {write.where} RETURNING 1 AS one", write.values))


def decoded(row: type[R], stored: Row) -> R:
    """Return a stored row as an instance of its class. Raises pydantic's `ValidationError` if the row holds an invalid
    value."""
    return row(**{name: column.decoded(stored[name]) for name, column in columns_of(row).items()})


@dataclass(slots=True)
class RowWrite:
    """One statement on one row, with encoded values."""

    row: type[TableRow]
    key: dict[str, Any]
    insert: bool
    add: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    fill: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, effect: Effect) -> "RowWrite":
        columns = columns_of(effect.row)
        write = cls(
            effect.row, {name: columns[name].encoded(effect.key[name]) for name in effect.row.key}, effect.insert
        )
        write.then(effect)
        return write

    def then(self, effect: Effect) -> None:
        """Return a write that does this one and then the other, on the same row."""
        columns = columns_of(self.row)
        for name, number in effect.add.items():
            more = columns[name].encoded(number)
            if name in self.set:
                self.set[name] = (self.set[name] or 0) + more
            else:
                self.add[name] = self.add.get(name, 0) + more
        for name, value in effect.set.items():
            self.set[name] = columns[name].encoded(value)
            self.add.pop(name, None)
            self.fill.pop(name, None)
        for name, value in effect.fill.items():
            if name in self.add:  # the sum is no NULL
                continue
            if name not in self.set:
                self.fill.setdefault(name, columns[name].encoded(value))
            elif self.set[name] is None:
                self.set[name] = columns[name].encoded(value)

    @property
    def where(self) -> str:
        return " AND ".join(f'"{name}" = :key_{name}' for name in self.key)

    @property
    def sql(self) -> str:
        return self._upsert() if self.insert else self._update()

    @property
    def values(self) -> dict[str, Any]:
        values = {f"key_{name}": value for name, value in self.key.items()}
        values |= {f"set_{name}": value for name, value in self.set.items()}
        values |= {f"add_{name}": value for name, value in self.add.items()}
        values |= {f"fill_{name}": value for name, value in self.fill.items()}
        if self.insert:
            values |= {f"new_{name}": self._default(name) + value for name, value in self.add.items()}
        return values

    def _update(self) -> str:
        added = [f'"{name}" = coalesce("{name}", 0) + :add_{name}' for name in sorted(self.add)]
        given = [f'"{name}" = :set_{name}' for name in sorted(self.set)]
        given += [f'"{name}" = coalesce("{name}", :fill_{name})' for name in sorted(self.fill)]
        # A statement without a change still reports whether the row exists.
        same = f'"{self.row.key[0]}" = "{self.row.key[0]}"'
        return f"UPDATE {self.row.table} SET {', '.join([*added, *given]) or same} WHERE {self.where}"

    def _upsert(self) -> str:
        table, key = self.row.table, ", ".join(f'"{name}"' for name in self.key)
        marks = {name: f":key_{name}" for name in self.key}
        marks |= {name: f":new_{name}" for name in sorted(self.add)}
        marks |= {name: f":set_{name}" for name in sorted(self.set)}
        marks |= {name: f":fill_{name}" for name in sorted(self.fill)}
        names = ", ".join(f'"{name}"' for name in marks)
        added = [f'"{name}" = coalesce({table}."{name}", 0) + :add_{name}' for name in sorted(self.add)]
        given = [f'"{name}" = excluded."{name}"' for name in sorted(self.set)]
        given += [f'"{name}" = coalesce({table}."{name}", excluded."{name}")' for name in sorted(self.fill)]
        same = f'"{self.row.key[0]}" = excluded."{self.row.key[0]}"'
        return (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join(marks.values())})"
            f" ON CONFLICT ({key}) DO UPDATE SET {', '.join([*added, *given]) or same}"
        )

    def _default(self, name: str) -> Any:
        default = self.row.model_fields[name].get_default()
        column = columns_of(self.row)[name]
        return 0 if default is None or self.row.model_fields[name].is_required() else column.encoded(default)


def folded(effects: Iterable[Effect]) -> list[RowWrite]:
    """Return the statements for these effects, merged to one per row where possible. They are sorted by table and key,
    so that concurrent transactions lock the same rows in the same order."""
    writes: dict[tuple[str, str], list[RowWrite]] = {}
    for effect in effects:
        write = RowWrite.of(effect)
        own = writes.setdefault((effect.row.table, repr(write.key)), [])
        # Do not merge an update with a later insert: the update must not become part of a new row, and whether the row
        # exists is not known here. Nor a number that is added to a column which the statement before may fill in.
        if own and own[-1].insert == effect.insert and not own[-1].fill.keys() & effect.add.keys():
            own[-1].then(effect)
        else:
            own.append(write)
    return [write for name in sorted(writes) for write in writes[name]]


def _names(row: type[TableRow]) -> str:
    return ", ".join(f'"{name}"' for name in row.model_fields)


# Pages by cursor: the next page starts after the last row of this one, so rows that are added meanwhile do not shift
# it.
#
# A query walks an index and reads a bounded number of rows. With a filter that no index serves, a page may therefore be
# short, or even empty, and still have a next one.


T = TypeVar("T")

MOST = 1_000
"""Rows of one page."""
WINDOW = 5_000
"""Maximum rows read for one page when a filter has no index."""
_NUMBERS = frozenset({"id", "version", "ended_at", "by_number"})
"""Columns of lists' orders that hold integers; the others are text."""
_AT = "at_"


class QueryPage(BaseModel, Generic[T]):
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


# Aliases: other names under which an answer has shown a record, such as the cid of a place.


async def stored_key(db: Database, record: type[Record], key: str) -> str:
    """Return the key under which a record of this class is stored, given that key or an alias.

    Returns `key` itself if it is not an alias; whether such a record exists is not checked.
    """
    if record.identity is None:
        return key
    rows = await db.fetch(
        "SELECT key FROM aliases WHERE identity = :identity AND alias = :alias",
        {"identity": record.identity, "alias": key},
    )
    return str(rows[0]["key"]) if rows else key


# The end of the change log.


KEYS_AT_ONCE = 1_000


async def states_before(db: Database, kind: str, keys: Collection[str], number: int) -> dict[str, Mapping[str, Any]]:
    """Map the key of each of these records to its last state in the log before a change number. A record whose earlier
    changes retention has removed is left out. `kind` is the kind of a record class, never a text of a user."""
    sql = f"""
SELECT c.key, c.body FROM changes c WHERE c.kind = '{kind}' AND c.key IN :keys AND c.body IS NOT NULL
  AND c.version = (SELECT max(p.version) FROM changes p
    WHERE p.key = c.key AND p.body IS NOT NULL AND p.kind = '{kind}' AND p.id < {number:d})
"""
    ordered, found = sorted(keys), {}
    for start in range(0, len(ordered), KEYS_AT_ONCE):
        for row in await db.fetch_by_keys(sql, {"keys": ordered[start : start + KEYS_AT_ONCE]}):
            found[row["key"]] = loads(row["body"])
    return found


async def last_change(database: Database) -> int:
    """Return the number of the newest change, also if it has been pruned; 0 before the first.

    Whatever is read after this is at least as new as that change.
    """
    (row,) = await database.fetch("SELECT change FROM tail")
    return int(row["change"])


# Job numbers: the internal ids by which the ledger's tables refer to jobs. Outside the ledger, only the public id is
# used.


JOB_NAMES = "LEFT JOIN jobs j ON j.id = w.job_id LEFT JOIN past_jobs p ON p.id = w.job_id"
"""Joins the public ids of jobs to rows `w` that may outlive them: records and changes."""
JOB_NAME = "coalesce(j.public_id, p.public_id) AS public_id"
"""The column that this join adds."""


async def job_number(db: Database, job: UUID, *, past: bool = False) -> int:
    """Return the value of `job_id` in the rows of this job. Raises `NotFound` if there is no such job.

    With `past`, also find a job that retention has removed; its records may still exist.
    """
    sql = "SELECT id FROM jobs WHERE public_id = :job"
    if past:
        sql += " UNION ALL SELECT id FROM past_jobs WHERE public_id = :job"
    rows = await db.fetch(sql, {"job": str(job)})
    if not rows:
        raise no_job(job)
    return int(rows[0]["id"])


def no_job(job: UUID) -> NotFound:
    return NotFound(f"There is no job {job}. See `forager jobs list`.")


__all__ = [
    "JOB_NAME",
    "JOB_NAMES",
    "MOST",
    "Column",
    "Database",
    "Encoder",
    "Kind",
    "QueryPage",
    "Row",
    "RowWrite",
    "Walk",
    "at",
    "bare_type",
    "change_row",
    "checked_limit",
    "columns_of",
    "decode_cursor",
    "decoded",
    "encode_cursor",
    "folded",
    "insert_row",
    "job_number",
    "last_change",
    "loads",
    "no_job",
    "one_row",
    "read_rows",
    "remove_row",
    "stored_key",
    "task_body",
    "walk",
]
