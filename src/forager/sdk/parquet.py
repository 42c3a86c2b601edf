"""Rows as Parquet files, with the types of a class: money is decimal, times are in UTC, lists are lists.

Column types follow the annotations of a pydantic class, not the values, so that every file of a class has the same
types and a field that is added later is a new column. Objects without a class of their own are JSON text. A value that
does not fit its column (the class has changed since it was stored) goes to the column for the rest: nothing is lost,
and no row is refused for it.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Literal, NamedTuple, get_args, get_origin

import orjson
from pydantic import BaseModel

from forager.core.errors import Rejected
from forager.sdk.queries import bare_type

_CENTS = Decimal("0.0001")
"""The store keeps four decimals of an amount."""
_DIGITS = 19
_LARGEST = 2**63
_LISTS = (list, tuple, set, frozenset, Sequence)

Row = Mapping[str, Any]


class ParquetColumn(NamedTuple):
    type: Any
    """The Arrow type."""
    fit: Callable[[Any], Any]
    """Converts a value of JSON to what Arrow takes for this type. Raises `ValueError` if it does not fit."""


class ParquetTable:
    """Encodes rows of one class. Raises `Rejected` if pyarrow is not installed."""

    def __init__(self, about: Mapping[str, Any], model: type[BaseModel] | None, rest: str) -> None:
        """`about`: columns before those of the class, by name, with their annotations. `rest`: the name of the column
        for everything that has no column or does not fit it, as one JSON object."""
        self._rest = rest
        self._about = {name: _column(annotation) for name, annotation in about.items()}
        fields = {} if model is None else model.model_fields
        self._fields = {name: _column(info.annotation) for name, info in fields.items()}
        if clash := {*self._about, rest} & set(self._fields):
            raise Rejected(f"The class {model} has a field {min(clash)!r}, which is the name of another column.")
        arrow = _arrow()
        columns = {**self._about, **self._fields, rest: _json_column()}
        self._schema = arrow.schema([(name, column.type) for name, column in columns.items()])

    def encode(self, rows: Sequence[tuple[Row, Row]]) -> bytes:
        """Return one file. A row is (values of the columns before, values of the class, as JSON shows them)."""
        import pyarrow.parquet

        values: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        for about, body in rows:
            rest = {name: value for name, value in body.items() if name not in self._fields}
            for name, column in self._about.items():
                values[name].append(None if about[name] is None else column.fit(about[name]))
            for name, column in self._fields.items():
                values[name].append(_fitted(column, name, body.get(name), rest))
            values[self._rest].append(orjson.dumps(rest).decode() if rest else None)
        out = io.BytesIO()
        table = _arrow().Table.from_pydict(values, schema=self._schema)
        pyarrow.parquet.write_table(table, out, compression="zstd")
        return out.getvalue()


def _fitted(column: ParquetColumn, name: str, value: Any, rest: dict[str, Any]) -> Any:
    if value is None:
        return None
    try:
        return column.fit(value)
    except (ValueError, TypeError, InvalidOperation):
        rest[name] = value
        return None


# ── from annotations to columns ──


def _column(annotation: Any) -> ParquetColumn:
    kind = bare_type(annotation)
    if get_origin(kind) is Literal:
        kinds = {type(word) for word in get_args(kind)}
        kind = kinds.pop() if len(kinds) == 1 else object
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        kind = str
    if kind in _SCALARS:
        named, fit = _SCALARS[kind]
        return ParquetColumn(named(_arrow()), fit)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _struct(kind)
    if get_origin(kind) in _LISTS and (items := [each for each in get_args(kind) if each is not ...]):
        return _list(_column(items[0])) if len(items) == 1 else _json_column()
    return _json_column()


def _struct(model: type[BaseModel]) -> ParquetColumn:
    columns = {name: _column(info.annotation) for name, info in model.model_fields.items()}

    def fit(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not value.keys() <= columns.keys():
            raise ValueError("it has other fields than its class")
        return {name: None if each is None else columns[name].fit(each) for name, each in value.items()}

    return ParquetColumn(_arrow().struct([(name, column.type) for name, column in columns.items()]), fit)


def _list(item: ParquetColumn) -> ParquetColumn:
    def fit(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise ValueError("it is not a list")
        return [None if each is None else item.fit(each) for each in value]

    return ParquetColumn(_arrow().list_(item.type), fit)


def _json_column() -> ParquetColumn:
    return ParquetColumn(_arrow().string(), lambda value: orjson.dumps(value, option=orjson.OPT_UTC_Z).decode())


# ── from values of JSON to values of Arrow ──


def _is(kind: type) -> Callable[[Any], Any]:
    def fit(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"it is not a {kind.__name__}")
        return value

    return fit


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value < _LARGEST:
        raise ValueError("it is not an integer of 64 bits")
    return value


def _money(value: Any) -> Decimal:
    amount = Decimal(str(value))
    exact = amount.quantize(_CENTS)
    if exact != amount or len(exact.as_tuple().digits) > _DIGITS:
        raise ValueError("it has more digits than the column")
    return exact


def _time(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("it has no time zone")
    return moment


def _day(value: Any) -> date:
    return value if isinstance(value, date) else date.fromisoformat(value)


_SCALARS: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    str: (lambda arrow: arrow.string(), _is(str)),
    bool: (lambda arrow: arrow.bool_(), _is(bool)),
    int: (lambda arrow: arrow.int64(), _integer),
    float: (lambda arrow: arrow.float64(), float),
    Decimal: (lambda arrow: arrow.decimal128(_DIGITS, 4), _money),
    datetime: (lambda arrow: arrow.timestamp("ms", tz="UTC"), _time),
    date: (lambda arrow: arrow.date32(), _day),
}


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise Rejected("Parquet needs the package pyarrow: pip install 'forager-data[parquet]'") from error
    return pyarrow
