"""A large ledger, made by SQL: a job that the ledger has done is copied until there are enough tasks and records.

The tables are filled without their indexes, which are built afterwards, as a restore does it: row by row, 100,000,000
tasks would take hours. Statistics are those that autovacuum would have collected meanwhile.
"""

import time

import asyncpg

from bench.support.fleet_worker import PIPELINE, FleetJob, plan
from bench.support.scale_worker import Found
from bench.support.stores import Store, open_ledger
from forager.core.ledger import Lease, NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Task
from forager.ledger.catalog import Catalog

TASKS_EACH = 10_000
"""Tasks of one finished job …"""
SITES_EACH = 10
"""… on this number of sites, and its records: one for ten tasks."""
COPIED = {
    "tasks": {"id": f"t.id + s.k * {TASKS_EACH}", "job_id": "t.job_id + s.k"},
    "changes": {"id": "t.id + s.k * :last", "job_id": "t.job_id + s.k", "key": "t.key || '-' || s.k"},
    "jobs": {"id": "t.id + s.k", "public_id": "substr(t.public_id, 1, 24) || lpad(to_hex(s.k), 12, '0')"},
    Found.table: {"id": "t.id + s.k * :last", "uid": "t.uid || '-' || s.k"},
}
"""The tables of finished work, with what differs between copies."""
MEASURED = (*COPIED, "queue", "lanes", "flows")


async def finish_one(store: Store) -> None:
    """Do one job through the ledger: every row of the history is a copy of one of its rows."""
    async with open_ledger(store, Catalog([PIPELINE])) as ledger:
        job = FleetJob(first=10_000_000, sites=SITES_EACH, each=TASKS_EACH // SITES_EACH, takes_ms=0)
        await ledger.submit(NewJob(PIPELINE.name, job.model_dump()), plan(job))
        session = await ledger.begin("fill")
        lanes = await ledger.take_lanes(session, 100)
        wants = [Want(lane.id, 500) for lane in lanes]
        ended: list[Settlement] = []
        while True:
            batch = await ledger.settle_and_lease(session, ended, wants)
            if not batch.leases:
                break
            ended = [_ended(lease) for lease in batch.leases]
        await ledger.end(session)


def _ended(lease: Lease) -> Settlement:
    assert isinstance(lease.task, Task)
    number = int(lease.key.split("/")[1])
    found = [Found(uid=lease.key, title=f"number {number}")] if number % 10 == 0 else []
    return Settlement(lease, TaskState.COMPLETED, records=found)


async def multiply(store: Store, tasks: int) -> float:
    """Make the store hold this number of finished tasks. Returns the seconds that it took."""
    copies = tasks // TASKS_EACH
    started = time.perf_counter()
    db = await asyncpg.connect(store.url)
    try:
        await db.execute("SET maintenance_work_mem = '768MB'")
        for table, differs in COPIED.items():
            began = time.perf_counter()
            last = await db.fetchval(f"SELECT max(id) FROM {table}")
            await _copy(db, table, {name: text.replace(":last", str(last)) for name, text in differs.items()}, copies)
            size = await db.fetchval("SELECT pg_total_relation_size($1::regclass)", table)
            print(f"    {table:12} {size / 1e9:6.2f} GB, {time.perf_counter() - began:5.0f} s", flush=True)
        await db.execute("UPDATE tail SET change = (SELECT max(id) FROM changes)")
        for table in ("jobs", "tasks", Found.table):
            await db.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")
        await db.execute("ANALYZE")
    finally:
        await db.close()
    return time.perf_counter() - started


async def _copy(db: asyncpg.Connection, table: str, differs: dict[str, str], copies: int) -> None:
    """In one transaction that begins with an empty table: with `wal_level = minimal`, nothing of it is logged."""
    columns = [row[0] for row in await db.fetch(_COLUMNS, table)]
    values = ", ".join(differs.get(column, f't."{column}"') for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    await db.execute(f"CREATE TEMP TABLE template AS SELECT * FROM {table}")
    async with db.transaction():
        await db.execute(f"TRUNCATE {table} CASCADE")
        constraints = await db.fetch(_CONSTRAINTS, table)
        for row in constraints:
            await db.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{row["name"]}" CASCADE')
        indexes = await db.fetch(_INDEXES, table)
        for row in indexes:
            await db.execute(f'DROP INDEX "{row["name"]}"')
        await db.execute(
            f"INSERT INTO {table} ({names}) SELECT {values} FROM generate_series(0, {copies - 1}) s(k), template t"
        )
        for row in constraints:
            await db.execute(f'ALTER TABLE {table} ADD CONSTRAINT "{row["name"]}" {row["definition"]}')
        for row in indexes:
            await db.execute(row["definition"])
    await db.execute("DROP TABLE template")


async def open_work(store: Store, sites: int, each: int, takes_ms: int, jobs: int) -> None:
    """Submit jobs on all sites, through the ledger."""
    async with open_ledger(store, Catalog([PIPELINE])) as ledger:
        for number in range(jobs):
            job = FleetJob(first=number * (sites // jobs), sites=sites // jobs, each=each, takes_ms=takes_ms)
            await ledger.submit(NewJob(PIPELINE.name, job.model_dump()), plan(job))


async def sizes(store: Store) -> dict[str, tuple[int, int, int]]:
    """Return for each table its rows by estimate, and the bytes of its rows and of its indexes."""
    db = await asyncpg.connect(store.url)
    try:
        rows = await db.fetch(_SIZES, list(MEASURED))
    finally:
        await db.close()
    return {row[0]: (int(row[1]), row[2], row[3]) for row in rows}


_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_CONSTRAINTS = """
SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE conrelid = $1::text::regclass AND contype IN ('p', 'u') ORDER BY contype
"""
_INDEXES = """
SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition FROM pg_index i
WHERE i.indrelid = $1::text::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)
"""
_SIZES = """
SELECT relname, greatest(reltuples, 0), pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE oid = ANY(SELECT unnest($1::text[])::regclass) ORDER BY pg_total_relation_size(oid) DESC
"""
