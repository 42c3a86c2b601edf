"""Plain tables: rows that a pipeline owns in addition to its records. Configuration that operators edit, statistics.

A table is declared by a class and created by the pipeline's own migrations. Operators and the pipeline's edges read and
write it with SQL (`Database`); a step changes it with an `Effect`, which is part of its settlement's transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from forager.core.invalid import field_errors
from forager.core.record import Index

NOTHING: Mapping[str, Any] = MappingProxyType({})
_LARGEST = 2**63 - 1


class TableRow(BaseModel):
    """Base class of a row of a plain table. Its fields are the columns.

    A field whose type has no None is NOT NULL. A field's default is the column's default, so that a plain INSERT may
    leave it out. Columns are stored as those of records are: see docs/records.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]
    """The columns that identify a row: the primary key."""
    indexes: ClassVar[tuple[Index, ...]] = ()
    stamped: ClassVar[frozenset[str]] = frozenset()
    """Times whose default is the moment of the INSERT: `created_at: datetime | None = None`. They are NOT NULL."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of one row of a plain table: numbers to add, values to set or to fill in, in the row with this key.

    It takes effect exactly once with the settlement that carries it, or never. Several effects on one row in one
    transaction are applied in their order. Everything is checked when the effect is made; raises `ValueError`.
    """

    row: type[TableRow]
    key: Mapping[str, Any]
    """A value for each column of the table's key."""
    add: Mapping[str, int | float | Decimal] = field(default_factory=lambda: NOTHING)
    """Added to the stored number; NULL counts as 0."""
    set: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    fill: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """Set only where the stored value is NULL, such as the time of a first event."""
    insert: bool = False
    """Create the row if it does not exist, with the defaults of its other columns. Otherwise nothing happens then."""

    def __post_init__(self) -> None:
        name = self.row.__name__
        if self.key.keys() != {*self.row.key}:
            raise ValueError(f"{name} is identified by {', '.join(self.row.key)}; the effect names {[*self.key]}.")
        changed = [*self.add, *self.set, *self.fill]
        if wrong := [c for c in changed if c not in self.row.model_fields or c in self.row.key]:
            raise ValueError(f"{name} has no column {', '.join(wrong)} that an effect could change.")
        if len(set(changed)) < len(changed):
            raise ValueError(f"An effect on {name} changes a column in two ways: choose one of add, set and fill.")
        for column in self.add:
            _check_number(self.row, column, self.add[column])
        object.__setattr__(self, "key", {c: _checked(self.row, c, self.key[c]) for c in self.row.key})
        for how in ("set", "fill"):
            object.__setattr__(self, how, {c: _checked(self.row, c, v) for c, v in getattr(self, how).items()})
        if self.insert and (missing := _required(self.row) - {*self.key, *changed}):
            raise ValueError(f"A new {name} needs {', '.join(sorted(missing))}, which have no default.")


def _required(row: type[TableRow]) -> set[str]:
    return {name for name, info in row.model_fields.items() if info.is_required()}


def _checked(row: type[TableRow], column: str, value: Any) -> Any:
    try:
        checked = _adapter(row, column).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{row.__name__}.{column}: {field_errors(error)[0].message}") from error
    if checked is None and column in row.stamped:
        raise ValueError(f"{row.__name__}.{column}: must not be empty")
    if type(checked) is float and not isfinite(checked):
        raise ValueError(f"{row.__name__}.{column}: {checked} is not finite")
    if type(checked) is int and abs(checked) > _LARGEST:
        raise ValueError(f"{row.__name__}.{column}: {checked} does not fit into 64 bits")
    return checked


def _check_number(row: type[TableRow], column: str, value: Any) -> None:
    kinds = _kinds(row.model_fields[column])
    fits = (
        (int in kinds and type(value) is int and abs(value) <= _LARGEST)
        or (float in kinds and type(value) in (int, float) and isfinite(value))
        or (Decimal in kinds and type(value) in (int, Decimal))
    )
    if not fits:
        raise ValueError(f"{row.__name__}.{column}: {value!r} cannot be added to it")


def _kinds(info: FieldInfo) -> set[Any]:
    annotation = info.annotation
    return {*get_args(annotation)} if get_origin(annotation) in (Union, UnionType) else {annotation}


@lru_cache(maxsize=1024)
def _adapter(row: type[TableRow], column: str) -> TypeAdapter[Any]:
    info = row.model_fields[column]
    kind: Any = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    return TypeAdapter(kind)
