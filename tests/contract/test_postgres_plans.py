"""Plans of the hot path (trap 3): made while statistics show an empty queue, they must fit a full one."""

import json
import os
import re
import statistics
import time
from typing import Any

import asyncpg
import pytest

from forager.ledger.postgres import PostgresLedger
from forager.ledger.postgres.connection import HOT_SETTINGS
from tests.support.pgbouncer import EVERYWHERE
from tests.support.rig import Rig, Worker, postgres_rig
from tests.support.rig_pipelines import calls, chain

BIG = ("queue", "tasks", "flows")
"""Whoever walks one of these from end to end walks open work, history, or every job's share of a lane."""
BATCH = 500


async def quiet_rig(url: str, *, create: bool) -> tuple[Rig, Worker]:
    rig = await postgres_rig(url, create=create)
    rig.audited = False
    return rig, await rig.worker()


async def lease_all(worker: Worker, count: int) -> list[float]:
    """Lease `count` tasks in batches and settle them. Returns the duration of each lease."""
    await worker.take_lanes()
    took = []
    while count > 0:
        began = time.perf_counter()
        leases = (await worker.cycle(most=BATCH)).leases
        took.append(time.perf_counter() - began)
        await worker.complete(leases)
        count -= len(leases)
    return took


async def close(rig: Rig, worker: Worker) -> None:
    await rig.ledger.end(worker.session)
    await rig.ledger.close()
    rig.tables.close()


async def statements_of(db: Any) -> list[tuple[str, int]]:
    """Return the statements that a connection has prepared for the big tables, with the number of values."""
    rows = await db.fetch("SELECT statement, cardinality(parameter_types) AS n FROM pg_prepared_statements")
    about = re.compile(rf"\b({'|'.join(BIG)})\b")
    return [(row["statement"], row["n"]) for row in rows if about.search(row["statement"])]


async def walks(db: Any, statements: list[tuple[str, int]]) -> list[str]:
    """Return the plans that read a whole table. All plans are made again, for unknown values."""
    found: list[str] = []
    for number, (sql, values) in enumerate(statements):
        await db.execute(f"PREPARE p{number} AS {sql}")
        nothing = f"({', '.join(['NULL'] * values)})" if values else ""
        plan = json.dumps(json.loads(await db.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE p{number}{nothing}")))
        tables = re.findall(r'"Node Type": "Seq Scan".{0,200}?"Relation Name": "(\w+)"', plan)
        found.extend(f"{table}: {sql}" for table in tables if table in BIG)
    return found


@pytest.mark.skipif(EVERYWHERE in os.environ, reason="behind a pooler no statement stays prepared")
async def test_plans_made_over_an_empty_queue_walk_indexes_only_trap_3(postgres_url: str) -> None:
    rig, worker = await quiet_rig(postgres_url, create=True)
    await rig.submit(calls(2_000))
    await lease_all(worker, 2_000)
    await close(rig, worker)
    admin = await asyncpg.connect(postgres_url)
    await admin.execute("VACUUM (ANALYZE)")  # from now on the statistics show no open work

    rig, worker = await quiet_rig(postgres_url, create=False)
    await rig.submit([*calls(3), *chain("p1", "p2")])
    await worker.drain()
    assert isinstance(rig.ledger, PostgresLedger)
    async with rig.ledger._connections.hot.acquire() as hot:
        statements = await statements_of(hot)
    assert len(statements) >= 8, "the hot path has more statements than that"
    with_ours = await asyncpg.connect(postgres_url, server_settings=HOT_SETTINGS)
    assert await walks(with_ours, statements) == []
    without = await asyncpg.connect(postgres_url, server_settings={"plan_cache_mode": "force_generic_plan"})
    assert await walks(without, statements) != [], "the control must find a plan that collapses"
    for connection in (admin, with_ours, without):
        await connection.close()
    await close(rig, worker)


async def test_a_lease_of_500_is_as_quick_after_a_vacuum_of_the_empty_queue_trap_3(postgres_url: str) -> None:
    rig, worker = await quiet_rig(postgres_url, create=True)
    await rig.submit(calls(5_000))
    before = await lease_all(worker, 5_000)
    await close(rig, worker)
    admin = await asyncpg.connect(postgres_url)
    await admin.execute("VACUUM (ANALYZE)")
    await admin.close()

    rig, worker = await quiet_rig(postgres_url, create=False)
    await rig.submit(calls(15_000))
    after = await lease_all(worker, 5_000)
    assert statistics.median(after) <= 5 * statistics.median(before), (before, after)
    await close(rig, worker)
