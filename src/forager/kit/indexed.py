"""What of a record goes into an external search index: under which alias, and which columns become which fields.

A pipeline declares it once (`Feature.indexed`); the sinks that keep such an index read it from there.
"""

from dataclasses import dataclass
from typing import Literal

from forager.core.record import Record

FieldType = Literal["integer", "text", "keyword", "date"]


@dataclass(frozen=True, slots=True)
class IndexedField:
    """One field of a document."""

    name: str
    type: FieldType
    column: str
    """The column of the record's table. A date is a column of Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The documents of one record class. The record must be of world scope and declare `search`."""

    record: type[Record]
    alias: str
    """The name under which the index is searched."""
    number: str
    """The field that holds the record's id: an integer, by which the newest records are found."""
    fields: tuple[IndexedField, ...]

    @property
    def searched(self) -> dict[str, str]:
        """Map the fields in which words are looked for to their weights."""
        weights = self.record.search
        return {field.name: weights[field.column] for field in self.fields if field.column in weights}
