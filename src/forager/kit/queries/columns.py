"""Maps Python types to columns: the column's type, and how values are encoded and decoded. Pure.

Points in time are Unix milliseconds. Money is a scaled integer, because decimals kept as text sort wrongly on SQLite.
`Literal` and `StrEnum` are text, so that filters and indexes can use them. Everything that is not a scalar is a JSON
leaf.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import orjson
from pydantic import BaseModel

from forager.core.record import Clear
from forager.kit.queries.values import loads

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
    """Whether the field accepts `CLEAR`."""

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
