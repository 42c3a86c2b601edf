"""Tables made from changes, for sinks that write to an SQL database: which tables there are, and their rows. Pure.

Each kind of record has two tables with typed columns: the present state (`items`, one row per record) and the history
(`items_history`, one row per change). A third table, `changes`, has every change of every kind as JSON. All rows are
made from the change alone, so that a replay writes the same rows again and a change of an old time never reads a newer
state. A value that does not fit its column (the class has changed since) goes to `change_rest`: nothing is lost, and no
row is refused for it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from forager.core.change import Change
from forager.core.record import Record
from forager.sdk.delivery import ColumnType, column_type
from forager.sdk.queries import columns_of

HISTORY = "_history"
REST = "change_rest"
_FIRST_DAY, _LAST_DAY = date(1900, 1, 1), date(2299, 12, 31)
"""The days that every database here can hold; ClickHouse has the shortest range."""
_CENTS = Decimal("0.0001")
_DIGITS = 19

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: ColumnType
    required: bool = False
    """True if every row has a value."""


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """One table. Its rows are dictionaries of JSON values, by the names of its columns."""

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    """The columns that identify a row, in the order in which a database should sort."""
    keeps_all: bool
    """True: a row per change, never replaced. False: of two rows with the same key, the greater `change_id` stays."""


ABOUT = (
    TableColumn("change_id", "INT64", required=True),
    TableColumn("change_op", "STRING", required=True),
    TableColumn("change_version", "INT64", required=True),
    TableColumn("change_at", "TIMESTAMP", required=True),
    TableColumn("change_job", "STRING", required=True),
    TableColumn("change_pipeline", "STRING", required=True),
    TableColumn("is_gone", "BOOL", required=True),
    TableColumn(REST, "JSON"),
)
"""Columns of every record table after the fields of the record. `change_job` and `change_pipeline` are empty for a
change without a job. They are not NULL, because `change_job` is part of a key."""
CHANGES = ChangeTable(
    "changes",
    (
        TableColumn("change_id", "INT64", required=True),
        TableColumn("change_kind", "STRING", required=True),
        TableColumn("change_key", "STRING", required=True),
        *ABOUT[1:6],
        TableColumn("change_scope", "STRING", required=True),
        TableColumn("body", "JSON"),
    ),
    ("change_kind", "change_key", "change_id"),
    keeps_all=True,
)


class RecordTables:
    """The tables of the record classes, and the rows of a batch."""

    def __init__(self, records: Iterable[type[Record]], *, all_changes: bool = True) -> None:
        """`all_changes`: whether there is a table `changes`."""
        self.records = {record.kind: record for record in records}
        self.now = {kind: _table(record, keeps_all=False) for kind, record in self.records.items()}
        """Maps each kind to the table of its present state."""
        self.history = {kind: _table(record, keeps_all=True) for kind, record in self.records.items()}
        """Maps each kind to the table of all its states."""
        self._all_changes = all_changes

    def rows(self, batch: Sequence[Change]) -> list[tuple[ChangeTable, list[Row]]]:
        """Return the rows of a batch by table. A table of the present state gets one row per key: the last.

        A record whose body is no longer in the log (its job has been removed) has no row: a replay would otherwise
        replace what was written when it was there."""
        found: dict[str, tuple[ChangeTable, dict[Any, Row]]] = {}
        for change in batch:
            if self._all_changes:
                found.setdefault(CHANGES.name, (CHANGES, {}))[1][change.id] = change_row(change)
            if change.kind not in self.records or change.body is None:
                continue
            row = self._record_row(change)
            for table in (self.history[change.kind], self.now[change.kind]):
                rows = found.setdefault(table.name, (table, {}))[1]
                key = tuple(row[name] for name in table.key)
                if key not in rows or rows[key]["change_id"] <= change.id:
                    rows[key] = row
        return [(table, list(rows.values())) for table, rows in found.values()]

    def _record_row(self, change: Change) -> Row:
        record, body = self.records[change.kind], dict(change.body or {})
        row: Row = {}
        for column in self.now[change.kind].columns:
            if column.name in record.model_fields:
                row[column.name] = fitted(column, body)
        row[record.key_field] = change.key  # the body of a renamed record has only the key that replaces it
        body.pop(record.key_field, None)
        return {**row, **_about(change), "is_gone": change.op == "gone", REST: _json(body) if body else None}


def fitted(column: TableColumn, body: dict[str, Any]) -> Any:
    """Take the value of a column out of a body, as JSON. A value that does not fit stays in the body."""
    value = body.get(column.name)
    try:
        fit = None if value is None else _FITS[column.type](value)
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        return None
    body.pop(column.name, None)
    return fit


def change_row(change: Change) -> Row:
    """Return the row of a change in the table `changes`."""
    about = {**_about(change), "change_kind": change.kind, "change_key": change.key, "change_scope": change.scope}
    return {**about, "body": None if change.json is None else _json(change.json)}


def _about(change: Change) -> Row:
    return {
        "change_id": change.id,
        "change_op": change.op,
        "change_version": change.version,
        "change_at": _moment(datetime.fromtimestamp(change.at / 1000, UTC)),
        "change_job": "" if change.job is None else str(change.job),
        "change_pipeline": change.pipeline or "",
    }


def _table(record: type[Record], *, keeps_all: bool) -> ChangeTable:
    fields = tuple(
        TableColumn(name, column_type(record, name), required=name == record.key_field)
        for name in columns_of(record)
        if name not in record.quiet and name not in {column.name for column in ABOUT}
    )
    key: tuple[str, ...] = (record.key_field,) if record.scope == "world" else ("change_job", record.key_field)
    if keeps_all:
        return ChangeTable(record.table + HISTORY, fields + ABOUT, (*key, "change_id"), keeps_all=True)
    return ChangeTable(record.table, fields + ABOUT, key, keeps_all=False)


# ── values of JSON that their columns can hold; each raises `ValueError` for another ──


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not a text")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it is neither true nor false")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise ValueError("it is not an integer of 64 bits")
    return value


def _float(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise ValueError("it is not a finite number")
    return number


def _amount(value: Any) -> str:
    amount = Decimal(str(value))
    exact = amount.quantize(_CENTS)
    if isinstance(value, bool) or exact != amount or len(exact.as_tuple().digits) > _DIGITS:
        raise ValueError("it has more digits than the column")
    return format(exact, "f")


def _time(value: Any) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("it has no time zone")
    _day(moment.astimezone(UTC).date())
    return _moment(moment)


def _day(value: Any) -> str:
    day = value if isinstance(value, date) else date.fromisoformat(value)
    if not _FIRST_DAY <= day <= _LAST_DAY:
        raise ValueError("it is outside of the years 1900 to 2299")
    return day.isoformat()


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()


_FITS: Mapping[ColumnType, Callable[[Any], Any]] = {
    "STRING": _text,
    "BOOL": _truth,
    "INT64": _whole,
    "FLOAT64": _float,
    "NUMERIC": _amount,
    "TIMESTAMP": _time,
    "DATE": _day,
    "JSON": _json,
}
