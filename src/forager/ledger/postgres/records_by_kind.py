"""The records of a group of settlements, by kind. This is a hot path, so as few objects as possible are created."""

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
    """Records of one kind in the order of discovery. All lists have the same length."""

    table: RecordTable
    jobs: list[int]
    records: list[Record]
    keys: list[str]

    def rename(self, stronger: Mapping[str, str]) -> None:
        """Replace each key by its strongest alias."""
        if stronger:
            self.keys = [stronger.get(key, key) for key in self.keys]

    def rows(self) -> list[list[Any]]:
        """Return the records as rows of the table, under these keys."""
        values, index = self.table.values, self.table.key_index
        rows = [values(record) for record in self.records]
        for row, key in zip(rows, self.keys, strict=True):
            row[index] = key
        return rows


def by_kind(catalog: Catalog, findings: Sequence[Finding]) -> dict[str, Found]:
    jobs = [job for job, own in findings for _ in own]
    records = [record for _, own in findings for record in own]
    kinds = [record.kind for record in records]
    batches = {}
    for kind in dict.fromkeys(kinds):
        mine = [each == kind for each in kinds]
        table, own = catalog.records[kind], list(compress(records, mine))
        keys = [clean(record.key()) for record in own]
        batches[kind] = Found(table, list(compress(jobs, mine)), own, keys)
    return batches


def first_and_again(names: Sequence[N]) -> tuple[dict[N, int], dict[N, list[int]]]:
    """Return the first position of each key, and the further positions of keys that occur more than once."""
    first: dict[N, int] = {}
    again: dict[N, list[int]] = {}
    for at, name in enumerate(names):
        if first.setdefault(name, at) != at:
            again.setdefault(name, []).append(at)
    return first, again
