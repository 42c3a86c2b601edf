"""Records that are written without having been seen: updates, and things observed to be gone. Pure; both ledgers read
the rows and write the result in their own SQL.

A group of settlements is stored in batches, each of which is first what was seen and then what was not. A batch ends
where a thing is seen of which the batch already holds an update: so each thing gets its observations in their order,
and almost every group is one batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forager.core.errors import Rejected
from forager.core.ledger import Settlement
from forager.core.outcome import Gone
from forager.core.record import Record
from forager.ledger.schema.record_tables import RecordTable, Values
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.text import clean, lenient_json


class Unseen(NamedTuple):
    """One update."""

    job: int
    record: Record
    gone: Gone | None
    """Why the record is gone, if that is what was observed."""


@dataclass(slots=True)
class Batch:
    seen: list[tuple[int, Sequence[Record]]] = field(default_factory=list)
    """(job, what one of its tasks found)"""
    unseen: list[Unseen] = field(default_factory=list)


def in_batches(settlements: Iterable[Settlement]) -> Iterator[Batch]:
    """Yield the records and updates of these settlements in batches that can be stored at once."""
    batch = Batch()
    updated: set[tuple[str, str]] = set()
    for s in settlements:
        if updated and any((record.kind, clean(record.key())) in updated for record in s.records):
            yield batch
            batch, updated = Batch(), set()
        job, extras = s.lease.job_id, s.extras
        if s.records:
            batch.seen.append((job, s.records))
        if extras is not None:
            unseen = [
                *(Unseen(job, record, None) for record in extras.updates),
                *(Unseen(job, gone.record, gone) for gone in extras.gone),
            ]
            batch.unseen += unseen
            updated |= {(each.record.kind, clean(each.record.key())) for each in unseen}
    yield batch


class StoredRow(NamedTuple):
    """A row of world scope as it stands."""

    version: int
    gone_at: int | None
    values: Values


class Restated(NamedTuple):
    """A row that gets a new version."""

    values: Values
    version: int
    gone: Gone | None
    """Why it is gone from now on; None: it is as gone as it was."""


class Restatement(NamedTuple):
    """What becomes of the rows of one kind."""

    restated: list[Restated]
    noted: list[Values]
    """Rows in which only quiet columns differ."""
    changes: list[NewChange]


def restate(table: RecordTable, told: Mapping[str, Sequence[Unseen]], stored: Mapping[str, StoredRow]) -> Restatement:
    """Merge updates into stored rows. `told` holds the updates by stored key; updates without a row are ignored.

    A record that is gone already keeps the time and the evidence of the first observation: observing it again is no
    change.
    """
    result = Restatement([], [], [])
    for key in sorted(told.keys() & stored.keys()):
        row = stored[key]
        values, teller, gone = _merged(table, key, told[key], row)
        if teller is None:
            if values != row.values:
                result.noted.append(values)
            continue
        version = row.version + 1
        result.restated.append(Restated(values, version, gone))
        op = "changed" if gone is None and row.gone_at is None else "gone"
        body = table.body(values, None if gone is None else evidence_of(gone))
        result.changes.append(NewChange(table.record.kind, key, op, version, teller, body))
    return result


def evidence_of(gone: Gone) -> bytes:
    """Why a record is gone, as its change tells it."""
    return lenient_json({"reason": gone.reason, "evidence": gone.evidence}).encode()


def by_key(table: RecordTable, told: Iterable[Unseen], stronger: Mapping[str, str]) -> dict[str, list[Unseen]]:
    """Group updates by stored key. Raises `Rejected` for job-scoped records, which are final."""
    if table.per_job:
        raise Rejected(f"Records of kind {table.record.kind!r} belong to a job and are final: they cannot be updated.")
    updates: dict[str, list[Unseen]] = {}
    for each in told:
        key = clean(each.record.key())
        updates.setdefault(stronger.get(key, key), []).append(each)
    return updates


def _merged(
    table: RecordTable, key: str, told: Sequence[Unseen], row: StoredRow
) -> tuple[Values, int | None, Gone | None]:
    """Return the merged values, the job whose update first changed something, and why the record is newly gone, if it
    is."""
    known, teller, gone = row.values, None, None
    for each in told:
        values = [clean(value) if isinstance(value, str) else value for value in table.values(each.record)]
        values[table.key_index] = key
        merged = table.merge(known, [values])
        leaves = each.gone is not None and row.gone_at is None and gone is None
        if teller is None and (leaves or table.is_change(known, merged)):
            teller = each.job
        known, gone = merged, each.gone if leaves else gone
    return known, teller, gone
