"""Writing records that were not seen: updates, things that are gone, and rows that failed validation."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from forager.core.ledger import Settlement
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.aliases import stronger_names
from forager.ledger.postgres.arrays import as_json, documents, rows_from
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.record_sql import statements_for
from forager.ledger.postgres.records import columns_of, quiet_columns, store_records
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.rejects import RejectedRow, rejected_rows
from forager.ledger.shared.text import clean, lenient_json
from forager.ledger.shared.unseen import Restatement, StoredRow, Unseen, by_key, in_batches, restate

_COLUMNS = RejectedRow._fields
_KEEP_REJECTED = f"""
INSERT INTO rejected ({", ".join(_COLUMNS)}, at)
SELECT x.job_id::bigint, x.task_id::bigint, x.kind, x.key, x.reason, x.payload, $7
FROM {rows_from([(name, name == "payload") for name in _COLUMNS])} AS x({", ".join(_COLUMNS)})
"""


async def store_in_order(
    db: Db, catalog: Catalog, settlements: Sequence[Settlement], deltas: Deltas, now: int
) -> list[NewChange]:
    """Everything that these settlements tell of records. Each record gets its observations in their order."""
    changes: list[NewChange] = []
    for batch in in_batches(settlements):
        if batch.seen:
            changes += await store_records(db, catalog, batch.seen, deltas, now)
        if batch.unseen:
            changes += await update_unseen(db, catalog, batch.unseen, now)
    return changes


async def keep_rejected(db: Db, settlements: Sequence[Settlement], deltas: Deltas, now: int) -> None:
    """Keep the rows that failed validation, and count them on their jobs."""
    rows = rejected_rows(settlements)
    if not rows:
        return
    *columns, payloads = zip(*rows, strict=True)
    await db.execute(_KEEP_REJECTED, *map(as_json, columns), documents(payloads), now)
    for job, count in Counter(row.job_id for row in rows).items():
        deltas.add(job, rejected=count)


async def update_unseen(db: Db, catalog: Catalog, unseen: Sequence[Unseen], now: int) -> list[NewChange]:
    """Merge updates into stored rows, and mark what is gone. Returns the changes."""
    kinds: defaultdict[str, list[Unseen]] = defaultdict(list)
    for each in unseen:
        kinds[each.record.kind].append(each)
    changes: list[NewChange] = []
    for kind in sorted(kinds):
        table = catalog.records[kind]
        stronger = await stronger_names(db, table, [each.record.key() for each in kinds[kind]])
        told = by_key(table, kinds[kind], stronger)
        rows = [
            StoredRow(row[0], row[1], list(row[2:])) for row in await db.fetch(statements_for(table).lock, sorted(told))
        ]
        result = restate(table, told, {row.values[table.key_index]: row for row in rows})
        await _write(db, table, result, now)
        changes += result.changes
    return changes


async def _write(db: Db, table: RecordTable, result: Restatement, now: int) -> None:
    sql = statements_for(table)
    if result.restated:
        gone = [row.gone for row in result.restated]
        await db.execute(
            sql.restate,
            *columns_of(table, [row.values for row in result.restated]),
            as_json([row.version for row in result.restated]),
            as_json([None if each is None else clean(each.reason) for each in gone]),
            documents([None if each is None else lenient_json(each.evidence) for each in gone]),
            now,
        )
    if result.noted:
        await db.execute(sql.note_unseen, *quiet_columns(table, result.noted))
