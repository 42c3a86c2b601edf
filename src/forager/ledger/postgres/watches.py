"""Due records become tasks: the tasks are added and the due times cleared in one transaction.

Settlements lock records after tasks, flows and lanes. A dispatch adds its tasks first, too, and never waits for a
record: one that another transaction holds is contested. Then the dispatch is rolled back and repeated without the
contested records, which stay due. So it cannot be part of a deadlock with a settlement.
"""

from collections.abc import Mapping, Sequence

from forager.core.faults import Faults
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.append import append
from forager.ledger.postgres.connection import Db, TryAgain
from forager.ledger.shared.watch_page import POSTPONED_MS, DueRow, Taken, WatchPage

# Rows are found by their ids. `IS NOT DISTINCT FROM` uses no index: thousands of records may be due at one moment.
_UNCHANGED = """
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x(id, due, version) JOIN {table} r ON r.id = x.id
WHERE r.{due} IS NOT DISTINCT FROM x.due AND r.version = x.version
"""
_READ = "SELECT r.id " + _UNCHANGED
_SET = (
    "WITH mine AS MATERIALIZED (SELECT r.id "
    + _UNCHANGED
    + """ FOR NO KEY UPDATE OF r SKIP LOCKED)
UPDATE {table} r SET {due} = $4::bigint WHERE r.id = ANY(ARRAY(SELECT id FROM mine)) RETURNING r.id
"""
)
# The watch's own row is held to the commit: one process at a time dispatches a watch, and `pause` waits for its page.
_HOLD = "SELECT paused FROM watches WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED"
_MAKE = "INSERT INTO watches (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING paused"
_NOTE = "UPDATE watches SET dispatched = dispatched + $2, last_at = $3, error = $4, error_at = $5 WHERE name = $1"


async def dispatch(
    db: Db,
    page: WatchPage,
    contested: set[int],
    lanes: Mapping[str, int],
    catalog: Catalog,
    faults: Faults,
) -> Taken:
    """Does nothing while another process dispatches the same watch.

    `contested` collects the ids of records that another transaction holds: the next try leaves them out.
    """
    name, due = page.watch.name, page.watch.due
    held = await db.fetchrow(_HOLD, name) or await db.fetchrow(_MAKE, name)
    if held is None or held["paused"]:
        return Taken()
    rows = await _unchanged(db, page, [row for row in page.rows.values() if row.id not in contested])
    plans = page.plans_of([row.id for row in rows])
    tasks = (await append(db, page.job, plans, lanes, catalog, again=True)).total if plans else 0
    statement = _SET.format(table=page.table, due=due)
    taken = await _set(db, statement, rows, None)
    if len(taken) < len(rows):
        # Met a second time, contention is heavy: the whole page stays due, and the next look takes it.
        leave_all = bool(contested)
        contested.update(row.id for row in rows if leave_all or row.id not in taken)
        raise TryAgain("another transaction is writing some of the due records")
    postponed = await _set(db, statement, page.postponed, page.now + POSTPONED_MS)
    if taken or postponed:
        await db.execute(_NOTE, name, len(taken), page.now, page.error, page.error_at)
    faults.at("dispatched")
    return Taken(len(taken), tasks, len(postponed), bool(contested))


async def _unchanged(db: Db, page: WatchPage, rows: Sequence[DueRow]) -> list[DueRow]:
    """Those of the records that are still as they were read."""
    if not rows:
        return []
    unchanged = await db.fetch(_READ.format(table=page.table, due=page.watch.due), *_columns(rows))
    ids = {row[0] for row in unchanged}
    return [row for row in rows if row.id in ids]


async def _set(db: Db, statement: str, rows: Sequence[DueRow], due: int | None) -> set[int]:
    """Write this due time into those records that have not changed and that no other transaction holds."""
    return {row[0] for row in await db.fetch(statement, *_columns(rows), due)} if rows else set()


def _columns(rows: Sequence[DueRow]) -> tuple[list[int], list[int], list[int]]:
    return [row.id for row in rows], [row.due for row in rows], [row.version for row in rows]
