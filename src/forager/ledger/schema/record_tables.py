"""Record tables, made from record classes: scalars are columns, everything else a JSON leaf.

A row also says how often and when the thing was seen and at which version it stands. Money is a scaled integer, because
decimals kept as text sort wrongly on SQLite.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from operator import itemgetter
from types import UnionType
from typing import Any, Union, get_args, get_origin

import orjson
from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, UniqueConstraint
from sqlalchemy.types import JSON, Boolean, TypeEngine

from forager.core.record import Record
from forager.ledger.schema.core_tables import BigId

MONEY_SCALE = 10_000

Encoder = Callable[[Any], Any]


@dataclass(frozen=True)
class RecordTable:
    """How one record class lies in the database. Every record passes here: what can be known beforehand, is."""

    record: type[Record]
    fields: tuple[str, ...]
    encoders: tuple[Encoder | None, ...]
    """None where the value goes in as it is."""
    decoders: tuple[Encoder | None, ...]
    types: tuple[TypeEngine[Any], ...]

    @property
    def name(self) -> str:
        return self.record.table

    @cached_property
    def key_index(self) -> int:
        return self.fields.index(self.record.key_field)

    @property
    def per_job(self) -> bool:
        return self.record.scope == "job"

    def values(self, record: Record) -> list[Any]:
        """The row's own columns, in the order of `fields`."""
        values = list(self._pick(record.__dict__))
        for index, encode in self._encoded:
            if values[index] is not None:
                values[index] = encode(values[index])
        return values

    def pick(self, record: Record) -> tuple[Any, ...]:
        """The record's own values, not yet encoded, in the order of `fields`."""
        return self._pick(record.__dict__)

    def decode(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row as people see it."""
        out = dict(row)
        for name, decode in zip(self.fields, self.decoders, strict=True):
            if decode is not None and out.get(name) is not None:
                out[name] = decode(out[name])
        return out

    def body(self, values: list[Any]) -> bytes:
        """The JSON of a change: what is known, without the unknown. JSON leaves are nested, not quoted."""
        known = {name: value for name, value in zip(self.fields, values, strict=True) if value is not None}
        for name, shape in self._shaped:
            if name in known:
                known[name] = shape(known[name])
        return orjson.dumps(known)

    def known(self, row: dict[str, Any]) -> dict[str, Any]:
        """The value of `body`, made from a stored row instead of the values of a record."""
        known = {name: value for name, value in row.items() if value is not None}
        for name, shape in self._shaped:
            if name in known:
                known[name] = bool(known[name]) if shape is bool else _loads(known[name])
        return known

    @cached_property
    def _pick(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        return itemgetter(*self.fields) if len(self.fields) > 1 else lambda have: (have[self.fields[0]],)

    @cached_property
    def _encoded(self) -> tuple[tuple[int, Encoder], ...]:
        return tuple((index, encode) for index, encode in enumerate(self.encoders) if encode is not None)

    @cached_property
    def _shaped(self) -> tuple[tuple[str, Encoder], ...]:
        """Columns whose stored value is not yet what JSON should show. SQLite gives a stored truth back as a number."""
        shapes = ((JSON, orjson.Fragment), (Boolean, bool))
        return tuple(
            (name, shape)
            for name, kind in zip(self.fields, self.types, strict=True)
            for column, shape in shapes
            if isinstance(kind, column)
        )


def record_tables(records: Iterable[type[Record]]) -> dict[str, RecordTable]:
    """By kind."""
    return {record.kind: _describe(record) for record in records}


def add_record_tables(metadata: MetaData, tables: Iterable[RecordTable]) -> None:
    """Declare the SQLAlchemy tables that `RecordTable`s describe."""
    for table in tables:
        _declare(metadata, table)


def _describe(record: type[Record]) -> RecordTable:
    names, encoders, decoders, types = [], [], [], []
    for name, info in record.model_fields.items():
        kind, encode, decode = _column_type(_without_none(info.annotation))
        names.append(name)
        encoders.append(encode)
        decoders.append(decode)
        types.append(kind)
    return RecordTable(record, tuple(names), tuple(encoders), tuple(decoders), tuple(types))


def _declare(metadata: MetaData, table: RecordTable) -> Table:
    record = table.record
    scope = [Column("job_id", BigInteger, nullable=False)] if table.per_job else []
    own = [
        Column(name, kind, nullable=name != record.key_field)
        for name, kind in zip(table.fields, table.types, strict=True)
    ]
    # The key first: who looks for a thing in whatever job finds it by the same index. A job's own records are read in
    # the order of their finding: there the next one is written beside the last, which costs next to nothing.
    unique = (record.key_field, "job_id") if table.per_job else (record.key_field,)
    of_job = [Index(f"ix_{record.table}_job", "job_id", "id")] if table.per_job else []
    return Table(
        record.table,
        metadata,
        Column("id", BigId, primary_key=True),
        *scope,
        *own,
        Column("version", Integer, nullable=False),
        Column("first_seen_at", BigInteger, nullable=False),
        Column("last_seen_at", BigInteger, nullable=False),
        Column("times_seen", BigInteger, nullable=False),
        Column("gone_at", BigInteger),
        UniqueConstraint(*unique, name=f"uq_{record.table}_key"),
        *of_job,
        *(Index(f"ix_{record.table}_{'_'.join(i.columns)}", *i.columns) for i in record.indexes),
    )


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        kept = [a for a in get_args(annotation) if a is not type(None)]
        return kept[0] if len(kept) == 1 else object
    return annotation


def _column_type(annotation: Any) -> tuple[TypeEngine[Any], Encoder | None, Encoder | None]:
    for known, column in _SCALARS.items():
        if annotation is known:
            return column
    return JSON(), lambda value: orjson.dumps(value).decode(), _loads


def _loads(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def _milliseconds(value: datetime) -> int:
    return round(value.timestamp() * 1000)


_SCALARS: dict[type, tuple[TypeEngine[Any], Encoder | None, Encoder | None]] = {
    str: (Text(), None, None),
    bool: (Boolean(), None, bool),
    int: (BigInteger(), None, None),
    float: (Float(), None, None),
    Decimal: (BigInteger(), lambda d: int(d * MONEY_SCALE), lambda n: Decimal(n) / MONEY_SCALE),
    datetime: (BigInteger(), _milliseconds, lambda ms: datetime.fromtimestamp(ms / 1000, UTC)),
}
