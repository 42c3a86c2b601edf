"""Writing records that were not seen: updates, things that are gone, and rows that failed validation."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter

from forager.core.ledger import Settlement
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.rejects import RejectedRow, rejected_rows
from forager.ledger.shared.text import clean, lenient_json
from forager.ledger.shared.unseen import Restatement, Unseen, by_key, in_batches, restate
from forager.ledger.sqlite.aliases import stronger_names
from forager.ledger.sqlite.bulk import insert_many
from forager.ledger.sqlite.records import rows_by_key, sets, store_records
from forager.ledger.sqlite.writer_state import Memory

_JOB = itemgetter(0)


def store_in_order(
    db: sqlite3.Connection, memory: Memory, settlements: Sequence[Settlement], deltas: Deltas, now: int
) -> list[NewChange]:
    """Everything that these settlements tell of records. Each record gets its observations in their order."""
    changes: list[NewChange] = []
    for batch in in_batches(settlements):
        seen = [(job, record) for job, records in batch.seen for record in records]
        if seen:
            changes += store_records(db, memory, seen, deltas, now)
        if batch.unseen:
            changes += update_unseen(db, memory, batch.unseen, now)
    return changes


def keep_rejected(db: sqlite3.Connection, settlements: Sequence[Settlement], deltas: Deltas, now: int) -> None:
    """Keep the rows that failed validation, and count them on their jobs."""
    rows = rejected_rows(settlements)
    if rows:
        insert_many(db, f"rejected ({', '.join(RejectedRow._fields)}, at)", [(*row, now) for row in rows])
    for job, count in Counter(map(_JOB, rows)).items():
        deltas.add(job, rejected=count)


def update_unseen(db: sqlite3.Connection, memory: Memory, unseen: Sequence[Unseen], now: int) -> list[NewChange]:
    """Merge updates into stored rows, and mark what is gone. Returns the changes."""
    kinds: defaultdict[str, list[Unseen]] = defaultdict(list)
    for each in unseen:
        kinds[each.record.kind].append(each)
    changes: list[NewChange] = []
    for kind, own in kinds.items():
        table = memory.catalog.records[kind]
        stronger = stronger_names(db, memory, table, [each.record.key() for each in own])
        told = by_key(table, own, stronger)
        result = restate(table, told, rows_by_key(db, table, told))
        _write(db, table, result, now)
        changes += result.changes
    return changes


def _write(db: sqlite3.Connection, table: RecordTable, result: Restatement, now: int) -> None:
    key = table.record.key_field
    fields = sets(table.fields)
    changed = [row for row in result.restated if row.gone is None]
    db.executemany(
        f"UPDATE {table.name} SET {fields}, version = ?, changed_at = ? WHERE {key} = ?",
        [(*row.values, row.version, now, row.values[table.key_index]) for row in changed],
    )
    db.executemany(
        f"UPDATE {table.name} SET {fields}, version = ?, changed_at = ?, gone_at = ?, gone_reason = ?,"
        f" gone_evidence = ? WHERE {key} = ?",
        [
            (
                *row.values,
                row.version,
                now,
                now,
                clean(row.gone.reason),
                lenient_json(row.gone.evidence),
                row.values[table.key_index],
            )
            for row in result.restated
            if row.gone is not None
        ],
    )
    if result.noted:
        quiet = sets(table.fields[index] for index in table.quiet)
        db.executemany(
            f"UPDATE {table.name} SET {quiet} WHERE {key} = ?",
            [(*(values[index] for index in table.quiet), values[table.key_index]) for values in result.noted],
        )
