"""Record tables, made from record classes: scalars are columns, everything else a JSON leaf.

A row also holds how often and when the thing was seen, its version, and whether it is gone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any

import orjson
from sqlalchemy import BigInteger, Float, Text
from sqlalchemy.types import JSON, Boolean, TypeEngine

from forager.core.errors import Rejected
from forager.core.pipeline import Pipeline
from forager.core.recheck import Recheck
from forager.core.record import CLEAR, Record, trusted
from forager.sdk.queries import Encoder, Kind, bare_type, columns_of, loads

# The SQL types of columns that a class declares.


_TYPES: dict[Kind, type[TypeEngine[Any]]] = {
    "text": Text,
    "boolean": Boolean,
    "bigint": BigInteger,
    "float": Float,
    "json": JSON,
}


def sql_type(kind: Kind) -> TypeEngine[Any]:
    return _TYPES[kind]()


Values = list[Any]
"""A row's own columns, encoded, in the order of `RecordTable.fields`."""

SEEN = ("version", "first_seen_at", "last_seen_at", "times_seen", "gone_at")
"""Columns of every record table, besides the record's own."""
KEPT = ("changed_at", "gone_reason", "gone_evidence")
"""Columns that only a table of world scope has: a row of job scope never changes."""


@dataclass(frozen=True)
class RecordTable:
    """The table of one record class. This is a hot path, so everything possible is computed in advance."""

    record: type[Record]
    fields: tuple[str, ...]
    encoders: tuple[Encoder | None, ...]
    """None if the value is stored as it is."""
    decoders: tuple[Encoder | None, ...]
    types: tuple[TypeEngine[Any], ...]
    shows: tuple[Encoder | None, ...]
    """Encoders from stored values to JSON; None where the stored value is used as it is."""

    @property
    def name(self) -> str:
        return self.record.table

    @cached_property
    def key_index(self) -> int:
        return self.fields.index(self.record.key_field)

    @property
    def per_job(self) -> bool:
        return self.record.scope == "job"

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The columns that the ledger itself keeps, besides the record's own."""
        return SEEN if self.per_job else (*SEEN, *KEPT)

    @cached_property
    def plain(self) -> bool:
        """No quiet, derived or clearable field: merging is the same for all columns, and a new row needs none."""
        return not (self.quiet or self._derives or self._clearable)

    @cached_property
    def quiet(self) -> tuple[int, ...]:
        """Positions of the quiet fields."""
        return tuple(index for index, name in enumerate(self.fields) if name in self.record.quiet)

    def values(self, record: Record) -> Values:
        """Return the row's own columns, in the order of `fields`. `CLEAR` is kept: `merge` resolves it."""
        values = list(self._pick(record.__dict__))
        for index, encode in self._encoded:
            value = values[index]
            if value is not None and value is not CLEAR:
                values[index] = encode(value)
        return values

    def pick(self, record: Record) -> tuple[Any, ...]:
        """Return the record's own values, not yet encoded, in the order of `fields`."""
        return self._pick(record.__dict__)

    def merge(self, old: Values | None, told: Sequence[Values]) -> Values:
        """Merge these values, one after the other, into the stored values `old` (None if the row is new)."""
        known = old
        for new in told:
            before = known
            known = new if before is None else [o if n is None else n for n, o in zip(new, before, strict=True)]
            if not self.plain:
                known = self._resolve(before, known)
        if known is None:
            raise AssertionError("there is neither a stored row nor an answer to merge")
        return known

    def is_change(self, old: Values, new: Values) -> bool:
        """Return whether a field differs that is not quiet."""
        if not self.quiet:
            return old != new
        return old != new and self._loud(old) != self._loud(new)

    def decode(self, row: dict[str, Any]) -> dict[str, Any]:
        """Decode a row for reports."""
        out = dict(row)
        for name, decode in zip(self.fields, self.decoders, strict=True):
            if decode is not None and out.get(name) is not None:
                out[name] = decode(out[name])
        return out

    def body(self, values: Values, gone: bytes | None = None) -> bytes:
        """Return the JSON of a change: the known fields, as people see them, without the unknown ones and without quiet
        fields.

        JSON leaves are nested, not quoted. `gone`: a JSON object with the reason why the thing is gone.
        """
        known = self._show({name: values[index] for index, name in self._told if values[index] is not None})
        if gone is not None:
            known["gone"] = orjson.Fragment(gone)
        return orjson.dumps(known)

    def parts(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return the fields of `body` from a stored row that begins with the columns `told`. JSON leaves are fragments,
        which only `orjson` can use."""
        return self._show({name: value for name, value in zip(self.told, row, strict=False) if value is not None})

    def _show(self, known: dict[str, Any]) -> dict[str, Any]:
        for name, show in self._shown:
            if name in known:
                value = known[name]
                known[name] = orjson.Fragment(value) if show is loads else show(value)
        return known

    def record_of(self, row: dict[str, Any]) -> Record:
        """Return the record that a stored row stands for. It was checked when it was found."""
        return trusted(self.record, self.decode({name: row[name] for name in self.fields}))

    def _resolve(self, before: Values | None, known: Values) -> Values:
        """Clear what is to be cleared, then compute the derived fields. Leaves its arguments as they are."""
        resolved = [None if value is CLEAR else value for value in known]
        if self._derives:
            derived = self._record(resolved).derive(None if before is None else self._record(before))
            for name, value in derived.items():
                index = self._index(name)
                encode = self.encoders[index]
                empty = value is None or value is CLEAR
                resolved[index] = None if empty else value if encode is None else encode(value)
        return resolved

    def _record(self, values: Values) -> Record:
        """Return the record that such a row stands for. It was checked when it was found."""
        return trusted(self.record, self.decode(dict(zip(self.fields, values, strict=True))))

    def _index(self, name: str) -> int:
        index = self._indexes.get(name)
        if index is None:
            raise Rejected(f"`{self.record.__name__}.derive` names {name!r}, which is not a field of it.")
        return index

    @cached_property
    def _indexes(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.fields)}

    @cached_property
    def _pick(self) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
        return itemgetter(*self.fields) if len(self.fields) > 1 else lambda have: (have[self.fields[0]],)

    @cached_property
    def _encoded(self) -> tuple[tuple[int, Encoder], ...]:
        return tuple((index, encode) for index, encode in enumerate(self.encoders) if encode is not None)

    @cached_property
    def _derives(self) -> bool:
        return self.record.derive is not Record.derive

    @cached_property
    def _clearable(self) -> bool:
        return any(column.clearable for column in columns_of(self.record).values())

    @cached_property
    def _told(self) -> tuple[tuple[int, str], ...]:
        return tuple((index, name) for index, name in enumerate(self.fields) if name not in self.record.quiet)

    @cached_property
    def told(self) -> tuple[str, ...]:
        """Return the columns that a change shows: all but the quiet ones."""
        return tuple(name for _, name in self._told)

    @cached_property
    def _loud(self) -> Callable[[Values], Any]:
        return itemgetter(*(index for index, _ in self._told))

    @cached_property
    def _shown(self) -> tuple[tuple[str, Encoder], ...]:
        """Columns whose stored value differs from its JSON form."""
        return tuple((name, show) for index, name in self._told if (show := self.shows[index]) is not None)


def record_tables(records: Iterable[type[Record]]) -> dict[str, RecordTable]:
    """Map kinds to tables. Raises `Rejected` for a class with a declaration that its table cannot have."""
    return {record.kind: _describe(record) for record in records}


def _describe(record: type[Record]) -> RecordTable:
    columns = columns_of(record)
    table = RecordTable(
        record,
        tuple(columns),
        tuple(column.encode for column in columns.values()),
        tuple(column.decode for column in columns.values()),
        tuple(sql_type(column.kind) for column in columns.values()),
        tuple(column.show for column in columns.values()),
    )
    _check(table)
    return table


def _check(table: RecordTable) -> None:
    name, known = table.record.__name__, {"id", *table.fields, *table.kept}
    if table.per_job and not table.plain:
        raise Rejected(
            f"{name} has quiet, derived or clearable fields, but job scope: its rows are final. Use world scope."
        )
    if unknown := table.record.quiet - set(table.fields):
        raise Rejected(f"{name}.quiet names {', '.join(sorted(unknown))}, which are not fields of it.")
    if table.record.key_field in table.record.quiet:
        raise Rejected(f"{name}.quiet names its key: the key of a record cannot be quiet.")
    for index in table.record.indexes:
        if no_columns := set(index.names) - known - ({"job_id"} if table.per_job else set()):
            raise Rejected(f"An index of {name} names {', '.join(sorted(no_columns))}, which are not columns of it.")


# Requirements of a recheck on its records' table: a due time that is written quietly, with a partial index.


def check_rechecks(pipelines: Sequence[Pipeline]) -> None:
    """Raise `Rejected` for a recheck whose records cannot be found by their due time, or whose name is taken."""
    names: set[str] = set()
    for pipeline in pipelines:
        for recheck in pipeline.rechecks:
            if recheck.name in names:
                raise Rejected(f"Two rechecks are called {recheck.name!r}. Give one of them another `name`.")
            names.add(recheck.name)
            _check_due_column(pipeline, recheck)


def _check_due_column(pipeline: Pipeline, recheck: Recheck) -> None:
    record, due = recheck.record, recheck.due
    subject = f"The recheck {recheck.name!r} of {pipeline.name}"
    if record not in pipeline.records:
        raise Rejected(f"{subject} rechecks {record.__name__}, which is not a record of this pipeline.")
    info = record.model_fields.get(due)
    is_time = info is not None and bare_type(info.annotation) is datetime and columns_of(record)[due].nullable
    if not is_time or due not in record.quiet:
        raise Rejected(f"{subject} needs {record.__name__}.{due} as a quiet field of type `datetime | Clear | None`.")
    if recheck.by is not None and recheck.by not in record.model_fields:
        raise Rejected(f"{subject} has a job for each {recheck.by!r}, which is not a field of {record.__name__}.")
    if not any(index.names[0] == due and index.where == recheck.condition for index in record.indexes):
        raise Rejected(f'{subject} needs Index(("{due}",), where="{recheck.condition}") on {record.__name__}.')
