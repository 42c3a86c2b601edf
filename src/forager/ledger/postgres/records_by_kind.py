"""What a group of settlements found, kind by kind. Every record passes here: as little as possible is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeVar

from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.text import clean

Finding = tuple[int, Sequence[Record]]
"""(job, what one of its tasks found)"""
N = TypeVar("N")


@dataclass(slots=True)
class Found:
    """Of one kind, in the order of its finding. The lists are as long as one another."""

    table: RecordTable
    jobs: list[int]
    records: list[Record]
    keys: list[str]

    def rename(self, stronger: Mapping[str, str]) -> None:
        """Call each thing by its strongest name."""
        if stronger:
            self.keys = [stronger.get(key, key) for key in self.keys]

    def rows(self) -> list[list[Any]]:
        """As they lie in the table, under these names."""
        values, index = self.table.values, self.table.key_index
        rows = [values(record) for record in self.records]
        for row, key in zip(rows, self.keys, strict=True):
            row[index] = key
        return rows


def by_kind(catalog: Catalog, findings: Sequence[Finding]) -> dict[str, Found]:
    jobs = [job for job, own in findings for _ in own]
    records = [record for _, own in findings for record in own]
    kinds = [record.kind for record in records]
    found = {}
    for kind in dict.fromkeys(kinds):
        mine = [each == kind for each in kinds]
        table, own = catalog.records[kind], list(compress(records, mine))
        keys = [clean(record.key()) for record in own]
        found[kind] = Found(table, list(compress(jobs, mine)), own, keys)
    return found


def first_and_again(names: Sequence[N]) -> tuple[dict[N, int], dict[N, list[int]]]:
    """Where each name stands first, and where else those stand that come more than once."""
    first: dict[N, int] = {}
    again: dict[N, list[int]] = {}
    for at, name in enumerate(names):
        if first.setdefault(name, at) != at:
            again.setdefault(name, []).append(at)
    return first, again
