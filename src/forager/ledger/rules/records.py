"""Records that are written without having been seen: updates, and things observed to be gone. Pure; both ledgers read
the rows and write the result in their own SQL.

A group of settlements is stored in batches; each batch holds records that were seen, then updates of records that were
not. A batch ends where a record is seen that the batch already updates. So each record gets its observations in their
order, and almost every group is one batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from forager.core.errors import Rejected
from forager.core.ledger import Settlement
from forager.core.outcome import Gone
from forager.core.record import Record
from forager.ledger.rules.changes import NewChange
from forager.ledger.schema.record_tables import RecordTable, Values

# NUL, which the web can hold. PostgreSQL's text cannot: one page with one would refuse a whole group. SQLite's can, but
# a search by JSON ends there, so that the name of a known thing would not be found.


NUL, INSTEAD = "\x00", "\ufffd"


def clean(text: str) -> str:
    return text.replace(NUL, INSTEAD) if NUL in text else text


def clean_or_none(text: str | None) -> str | None:
    return None if text is None else clean(text)


def lenient_json(value: Any) -> str:
    """Return a value from outside as JSON, whatever it holds: what JSON cannot express is written as text."""
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a number beyond 64 bits, half a character
        return orjson.dumps(repr(value)).decode()


class Unseen(NamedTuple):
    """One update."""

    job: int
    record: Record
    gone: Gone | None
    """The reason, if the record was observed to be gone."""


@dataclass(slots=True)
class UpdateBatch:
    seen: list[tuple[int, Sequence[Record]]] = field(default_factory=list)
    """(job, what one of its tasks found)"""
    unseen: list[Unseen] = field(default_factory=list)


def in_batches(settlements: Iterable[Settlement]) -> Iterator[UpdateBatch]:
    """Yield the records and updates of these settlements in batches that can be stored at once."""
    batch = UpdateBatch()
    updated: set[tuple[str, str]] = set()
    for s in settlements:
        if updated and any((record.kind, clean(record.key())) in updated for record in s.records):
            yield batch
            batch, updated = UpdateBatch(), set()
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
    """A row of world scope in its present state."""

    version: int
    gone_at: int | None
    values: Values


class Restated(NamedTuple):
    """A row that gets a new version."""

    values: Values
    version: int
    gone: Gone | None
    """The reason if the record is gone from this version on; None: this is unchanged."""


class Restatement(NamedTuple):
    """The new state of stored rows of one kind."""

    restated: list[Restated]
    noted: list[Values]
    """Rows in which only quiet columns differ."""
    changes: list[NewChange]


def restate(table: RecordTable, told: Mapping[str, Sequence[Unseen]], stored: Mapping[str, StoredRow]) -> Restatement:
    """Merge updates into stored rows. `told` maps stored keys to updates; updates without a row are ignored.

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
    """Encode the reason why a record is gone, as its change contains it."""
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


# The part of aliases that both ledgers share. Pure; each ledger has its own SQL.


@dataclass(slots=True)
class Names:
    """The aliases of one identity."""

    stronger: dict[str, str] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    """Keys whose row was renamed from a weaker key: that is a change, whatever else the answer contains."""

    @classmethod
    def resolved(cls, next_keys: Mapping[str, str]) -> "Names":
        """Resolve chains of aliases. `next_keys` maps a key to the next stronger one, which may be an alias itself."""
        return cls({name: _strongest(name, next_keys) for name in next_keys})


NO_NAMES = Names()


def _strongest(name: str, next_keys: Mapping[str, str]) -> str:
    passed = {name}
    while name in next_keys and next_keys[name] not in passed:
        name = next_keys[name]
        passed.add(name)
    return name


# Rows that failed validation, on their way into the table `rejected`. Whatever they hold, they must never be the reason
# why a settlement fails.


MOST_PAYLOAD = 64 * 1024
"""Characters of JSON. Of a longer payload the beginning is kept, as text."""


class RejectedRow(NamedTuple):
    job_id: int
    task_id: int
    kind: str
    key: str | None
    reason: str
    payload: str


def rejected_rows(settlements: Iterable[Settlement]) -> list[RejectedRow]:
    return [
        RejectedRow(
            s.lease.job_id,
            s.lease.task_id,
            reject.record.kind,
            clean_or_none(reject.key),
            clean(reject.reason),
            _payload(reject.payload),
        )
        for s in settlements
        if s.extras is not None
        for reject in s.extras.rejected
    ]


def _payload(value: Any) -> str:
    written = lenient_json(value)
    return written if len(written) <= MOST_PAYLOAD else lenient_json({"truncated": written[:MOST_PAYLOAD]})
