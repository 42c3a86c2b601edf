"""What a group of settlements found, kind by kind, as rows. Every record passes here: as little as possible is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.tables import RecordTable
from forager.ledger.text import NUL, clean

Finding = tuple[int, Sequence[Record]]
"""(job, what one of its tasks found)"""
N = TypeVar("N")


@dataclass(slots=True)
class Found:
    """Of one kind, in the order of its finding. The lists are as long as one another."""

    table: RecordTable
    jobs: list[int] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def rename(self, stronger: Mapping[str, str]) -> None:
        """Call each thing by its strongest name."""
        index = self.table.key_index
        for at, key in enumerate(self.keys):
            if key in stronger:
                self.keys[at] = self.rows[at][index] = stronger[key]


def by_kind(catalog: Catalog, findings: Iterable[Finding]) -> dict[str, Found]:
    kinds: dict[str, Found] = {}
    for job, records in findings:
        for record in records:
            kind = record.kind
            if kind not in kinds:
                kinds[kind] = Found(catalog.records[kind])
            found = kinds[kind]
            found.jobs.append(job)
            found.records.append(record)
    for found in kinds.values():
        values, index = found.table.values, found.table.key_index
        found.rows = [values(record) for record in found.records]
        found.keys = [row[index] for row in found.rows]
        for at, key in enumerate(found.keys):
            if NUL in key:
                found.keys[at] = found.rows[at][index] = clean(key)
    return kinds


def first_and_again(names: Sequence[N]) -> tuple[dict[N, int], dict[N, list[int]]]:
    """Where each name stands first, and where else those stand that come more than once."""
    first: dict[N, int] = {}
    again: dict[N, list[int]] = {}
    for at, name in enumerate(names):
        if first.setdefault(name, at) != at:
            again.setdefault(name, []).append(at)
    return first, again
