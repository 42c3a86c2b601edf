"""How a value of a Python type lies in a column: its SQL type, and how it is encoded and decoded.

Points in time are Unix milliseconds. Money is a scaled integer, because decimals kept as text sort wrongly on SQLite.
Words of a fixed list (`Literal`, `StrEnum`) are text, so that a filter and an index can use them. Whatever is no scalar
is a JSON leaf.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import orjson
from sqlalchemy import BigInteger, Float, Text
from sqlalchemy.types import JSON, Boolean, TypeEngine

from forager.core.record import Clear
from forager.kit.queries import loads

MONEY_SCALE = 10_000

Encoder = Callable[[Any], Any]


class ColumnType(NamedTuple):
    sql: TypeEngine[Any]
    encode: Encoder | None
    """None where the value goes in as it is."""
    decode: Encoder | None
    show: Encoder | None = None
    """The stored value as JSON shows it, where that is something else."""


def column_type(annotation: Any) -> ColumnType:
    """The column for a field with this annotation; None and `Clear` among its types do not count."""
    kind = bare_type(annotation)
    if get_origin(kind) is Literal:
        kinds = {type(word) for word in get_args(kind)}
        kind = kinds.pop() if len(kinds) == 1 else object
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ColumnType(Text(), str, kind)
    for known, column in _SCALARS.items():
        if kind is known:
            return column
    return ColumnType(JSON(), lambda value: orjson.dumps(value).decode(), loads, loads)


def is_clearable(annotation: Any) -> bool:
    """Whether a field with this annotation takes `CLEAR`."""
    return get_origin(annotation) in (Union, UnionType) and Clear in get_args(annotation)


def bare_type(annotation: Any) -> Any:
    """The type without None, `Clear` and annotations; `object` if it is a union of several."""
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


_SCALARS: dict[type, ColumnType] = {
    str: ColumnType(Text(), None, None),
    # SQLite gives a stored truth back as a number.
    bool: ColumnType(Boolean(), None, bool, bool),
    int: ColumnType(BigInteger(), None, None),
    float: ColumnType(Float(), None, None),
    Decimal: ColumnType(BigInteger(), lambda d: int(d * MONEY_SCALE), _money, lambda n: str(_money(n))),
    datetime: ColumnType(BigInteger(), _milliseconds, _time, _iso),
    date: ColumnType(Text(), date.isoformat, date.fromisoformat),
}
