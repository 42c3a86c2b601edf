"""Checks and encodes the values of a row before they are sent, because one bad value fails a whole load.

BigQuery names neither the row nor the reason in a way that a program could use. So a value that its column cannot hold
is found here, and only its change is set aside.
"""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from forager.core.errors import Permanent
from forager.kit.mirror import ColumnType, MirrorColumn, MirrorTable

LARGEST_ROW = 10 * 1024 * 1024
"""Bytes. BigQuery refuses rows in a load that are much larger."""
_MOST_NUMERIC = Decimal(10) ** 29
_NUMERIC_SCALE = 9


def line_of(table: MirrorTable, row: Mapping[str, Any], **more: Any) -> bytes:
    """Return a row as a line of JSON, with its end of line; `more` are further columns. JSON values are text: the
    statement that merges them parses it. Raises `Permanent` for a value that its column cannot hold."""
    encoded = {column.name: encode(column, row[column.name], table.name) for column in table.columns}
    line = orjson.dumps({**encoded, **more}) + b"\n"
    if len(line) > LARGEST_ROW:
        raise Permanent(f"A row of {table.name} has {len(line):,} bytes; BigQuery takes at most {LARGEST_ROW:,}.")
    return line


def encode(column: MirrorColumn, value: Any, table: str) -> Any:
    """Return the JSON form of a value; None is NULL. Raises `Permanent` if the column cannot hold it."""
    if value is None:
        return None
    try:
        if column.type == "STRUCT":
            inside = orjson.loads(value) if isinstance(value, str | bytes) else value
            return {field.name: encode(field, inside.get(field.name), table) for field in column.fields}
        return _ENCODERS[column.type](value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Permanent(f"{table}.{column.name} is {column.type} and cannot hold a value: {error}.") from error


def _text(value: Any) -> str:
    return str(value)


def _whole(value: Any) -> int:
    number = int(value)
    if number != value or not -(2**63) <= number < 2**63:
        raise ValueError("it is not a 64-bit integer")
    return number


def _float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("it is not finite")
    return number


def _numeric(value: Any) -> str:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("it is not a number") from None
    if not number.is_finite() or abs(number) >= _MOST_NUMERIC:
        raise ValueError("it has more than 29 digits before its point")
    rounded = round(number, _NUMERIC_SCALE)
    if rounded != number:
        raise ValueError("it has more than 9 digits after its point")
    return format(rounded.normalize(), "f")


def _time(value: Any) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("it is a time without a zone")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _day(value: Any) -> str:
    return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()


def _json(value: Any) -> str:
    if isinstance(value, str | bytes):
        orjson.loads(value)  # it is stored as text; a text that is not JSON would fail the whole batch
        return value if isinstance(value, str) else value.decode()
    return orjson.dumps(value).decode()


_ENCODERS: Mapping[ColumnType, Callable[[Any], Any]] = {
    "STRING": _text,
    "INT64": _whole,
    "FLOAT64": _float,
    "BOOL": bool,
    "TIMESTAMP": _time,
    "DATE": _day,
    "NUMERIC": _numeric,
    "JSON": _json,
}
