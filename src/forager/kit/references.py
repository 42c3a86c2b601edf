"""Reference data of a feature that comes from a table in a warehouse, not from a file."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FromTable:
    """Stands in `Feature.references` for a loader: the application reads the table and makes the data from its rows."""

    source: str
    """`TYPE:TABLE`: the type of sink that knows the warehouse (`SinkFeature.tables`), and the table's name there."""
    columns: tuple[str, ...]
    """The columns that are read, as far as the table has them."""
    make: Callable[[Iterable[Mapping[str, Any]]], Any]
    """`make(rows)`: the reference data. Raises `Rejected` for rows that it cannot use."""
