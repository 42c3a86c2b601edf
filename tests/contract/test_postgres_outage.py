"""PostgreSQL dies in the middle of a job: our errors name the cause, nothing is lost, and work continues by itself."""

import asyncio
import random

import pytest

from forager.core.errors import StoreUnavailable
from forager.core.ledger import Lease, Ledger, NewJob, Session, Settlement, Want
from forager.core.states import TaskState
from forager.ledger.postgres import PostgresLedger
from forager.ledger.schema.migrate import create_postgres
from tests.support.auditor import PostgresTables
from tests.support.postgres import PostgresServer
from tests.support.rig_pipelines import calls, catalog

SEED = 8


async def _hold_on(ledger: Ledger, session: Session, done: list[Settlement], wants: list[Want]) -> list[Lease]:
    """Repeat a turn until the database is back. The result of a lost answer is read afterwards."""
    lost = False
    while True:
        try:
            batch = await ledger.settle_and_lease(session, done, [] if lost else wants)
            if not lost:
                return list(batch.leases)
            if leases := await ledger.held(session):
                return list(leases)
            lost, done = False, []
        except StoreUnavailable:
            lost = True
            await ledger.work_arrived(0.05)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("most_kills", [4, pytest.param(10, marks=pytest.mark.chaos)])
async def test_a_killed_server_loses_nothing_and_work_continues_when_it_is_back__R8(
    postgres_server: PostgresServer, most_kills: int
) -> None:
    url = postgres_server.create_database()
    create_postgres(url, catalog())
    ledger = await PostgresLedger.open(url, catalog(), lease_seconds=600)
    chance, tasks = random.Random(SEED), 100 * most_kills
    job = await ledger.submit(NewJob("rig", {}), calls(tasks))
    session = await ledger.begin("worker")
    (lane,) = await ledger.take_lanes(session, 1)
    kills, wants, done = 0, [Want(lane.id, 10)], []  # type: ignore[var-annotated]
    while leases := await _hold_on(ledger, session, done, wants):
        done = [Settlement(lease, TaskState.COMPLETED, cost=lease.price) for lease in leases]
        if kills < most_kills and chance.random() < 0.2:
            kills += 1
            turning = asyncio.create_task(_hold_on(ledger, session, done, wants))
            for _ in range(chance.randrange(60)):  # somewhere in the middle of the turn
                await asyncio.sleep(0)
            await asyncio.to_thread(postgres_server.kill)
            await asyncio.to_thread(postgres_server.start)
            leases = await asyncio.wait_for(turning, 60)
            done = [Settlement(lease, TaskState.COMPLETED, cost=lease.price) for lease in leases]

    tables = PostgresTables(url)
    (row,) = tables.read(f"SELECT * FROM jobs WHERE public_id = '{job.job}'")
    assert kills == most_kills
    assert (row["state"], row["completed"], row["running"], row["reserved"]) == ("completed", tasks, 0, 0)
    assert row["spent"] == tasks
    await ledger.close()
    tables.close()


async def test_a_server_that_is_down_is_named_and_the_listener_comes_back(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    create_postgres(url, catalog())
    ledger, other = [await PostgresLedger.open(url, catalog()) for _ in range(2)]
    await ledger.work_arrived(5)

    await asyncio.to_thread(postgres_server.stop)
    for attempt in (ledger.begin("worker"), ledger.now(), ledger.sweep()):
        with pytest.raises(StoreUnavailable):
            await attempt
    with pytest.raises(StoreUnavailable):
        await PostgresLedger.open(url, catalog())
    await asyncio.to_thread(postgres_server.start)

    await ledger.work_arrived(30)  # it listens again, and logs that once
    waiting = asyncio.create_task(ledger.work_arrived(300))
    await other.submit(NewJob("rig", {}), calls(1))
    await asyncio.wait_for(waiting, 60)
    for each in (ledger, other):
        await each.close()
