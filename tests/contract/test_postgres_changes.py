"""Change numbers on PostgreSQL: a reader with one integer as its cursor misses nothing, whoever commits late.

The obvious ways to number a log lose changes in the same interleaving: the controls are in `test_change_numbers.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from forager.core.ledger import Settlement
from forager.core.states import TaskState
from forager.ledger.postgres.changes import write_changes
from forager.ledger.rules.changes import NewChange
from tests.support.rig import Rig, postgres_rig
from tests.support.rig_pipelines import Thing, calls, catalog
from tests.support.schema_templates import create_schema

Connection = asyncpg.Connection


@pytest.fixture
async def three(postgres_url: str) -> AsyncIterator[list[Any]]:
    """Two writers and a reader."""
    create_schema(postgres_url, catalog())
    connections = [await asyncpg.connect(postgres_url) for _ in range(3)]
    yield connections
    for connection in connections:
        await connection.close()


async def _read(reader: Any, sql: str, cursor: int) -> tuple[list[str], int]:
    rows = await reader.fetch(sql, cursor)
    return [row["who"] for row in rows], max([cursor, *(row["id"] for row in rows)])


async def test_the_tail_row_makes_the_second_writer_wait_and_loses_none_trap_1(
    postgres_url: str, three: list[Any]
) -> None:
    rig = await postgres_rig(postgres_url, create=False)
    late, early, reader = three
    read = "SELECT id, key AS who FROM changes WHERE id > $1 ORDER BY id"
    transaction = late.transaction()
    await transaction.start()
    await write_changes(late, [NewChange("k", "late", "new", 1, None)], 0)
    second = asyncio.create_task(_write_alone(early, "early"))
    await _until_somebody_waits(reader)

    seen, cursor = await _read(reader, read, 0)
    await transaction.commit()
    await second
    more, cursor = await _read(reader, read, cursor)

    assert (seen, more, cursor) == ([], ["late", "early"], 2)
    await rig.ledger.close()
    rig.tables.close()


async def test_a_reader_beside_many_sessions_sees_every_change_once_and_in_order_trap_1(postgres_url: str) -> None:
    rigs = [await postgres_rig(postgres_url, create=first) for first in (True, False, False, False)]
    for i in range(4):
        await rigs[0].ledger.submit(_job(i), calls(60, where=f"lane{i}"))
    reading = asyncio.create_task(_read_log(rigs[0]))
    await asyncio.gather(*(_work(rig, seed) for seed, rig in enumerate(rigs)))
    ids, keys = await reading

    assert ids == list(range(1, len(ids) + 1))
    assert (
        len([key for kind, key in keys if kind == "thing"]) == len(set(keys) & {("thing", k) for _, k in keys}) == 240
    )
    assert len([key for kind, key in keys if kind == "job"]) == 8
    for rig in rigs:
        await rig.ledger.close()
        rig.tables.close()


def _job(number: int) -> Any:
    from forager.core.ledger import NewJob

    return NewJob("rig", {"name": f"job {number}"})


async def _work(rig: Rig, seed: int) -> None:
    worker = await rig.worker(f"w{seed}")
    while await rig.ledger.has_work():
        taken = await rig.ledger.take_lanes(worker.session, 1)
        worker.lanes.update({lane.name: lane.id for lane in taken})
        if not worker.lanes:
            await rig.ledger.work_arrived(0.05)
            continue
        batch = await worker.cycle(most=7)
        done = [
            Settlement(lease, TaskState.COMPLETED, records=[Thing(uid=f"{lease.lane}-{lease.key}")])
            for lease in batch.leases
        ]
        await rig.ledger.settle_and_lease(worker.session, done, [])


async def _read_log(rig: Rig) -> tuple[list[int], list[tuple[str, str]]]:
    """As a sink does: one integer, small pages, while the writers write."""
    ids: list[int] = []
    keys: list[tuple[str, str]] = []
    while True:
        open_work = await rig.ledger.has_work()
        page = await rig.ledger.changes(ids[-1] if ids else 0, 10)
        ids.extend(change.id for change in page)
        keys.extend((change.kind, change.key) for change in page)
        if not page and not open_work:
            return ids, keys


async def _write_alone(connection: Any, key: str) -> None:
    async with connection.transaction():
        await write_changes(connection, [NewChange("k", key, "new", 1, None)], 0)


async def _until_somebody_waits(connection: Any) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while not await connection.fetchval(waiting):
        await asyncio.sleep(0)
