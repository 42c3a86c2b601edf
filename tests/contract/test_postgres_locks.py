"""Lock order on PostgreSQL (trap 10): whatever comes together, nobody is ever killed to end a deadlock."""

import asyncio
import contextlib
import random
import sys
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from forager.core.errors import ForagerError, StoreError
from forager.core.ledger import GivenLane, Lease, NewJob, Settlement
from forager.core.pipeline import JobLimits
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.postgres.submit import SHARED
from forager.ledger.rules.jobs import IN_ONE_GO
from tests.support.rig import Rig, postgres_rig
from tests.support.rig_pipelines import RECHECK, Call, Item, Seen, Thing, calls

WORKERS = 4
LANES = 8
JOBS = 60
TASKS = 30
MEDDLINGS = 120
THINGS = 40
"""Few enough that every group meets the records of the others."""
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def deadlocks(url: str) -> int:
    """Return the server's counts. Connections report theirs when they end, so wait until all have."""
    admin = await asyncpg.connect(url)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    try:
        async with asyncio.timeout(60):
            while await admin.fetchval(others):
                await asyncio.sleep(0)
        return int(await admin.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    finally:
        await admin.close()


def settlement(lease: Lease, chance: random.Random) -> Settlement:
    """Some end well, with things that everybody finds, in any order, and children in any lane; others do not."""
    luck = chance.random()
    if luck < 0.1:
        return Settlement(lease, TaskState.FAILED, cost=1, error="no luck")
    if luck < 0.2:
        return Settlement(lease, TaskState.READY, burned=False, error="not now")
    numbers = chance.sample(range(THINGS), 6)
    records: list[Record] = [Thing(uid=f"u{n}", weak=f"w{n}", size=chance.randrange(9)) for n in numbers]
    records += [Item(uid=f"i{n}", due=LONG_AGO) for n in numbers[:3]]
    children = [_plan(f"{lease.key}+", chance)] if luck < 0.4 and len(lease.key) < 8 else []
    return Settlement(lease, TaskState.COMPLETED, cost=1, records=[*records, Seen(uid=lease.key)], tasks=children)


def _plan(name: str, chance: random.Random) -> Plan:
    return Plan(Call(name=name, where=f"lane{chance.randrange(LANES)}"))


async def work(rig: Rig, chance: random.Random, submitted: asyncio.Event) -> int:
    worker, cycles = await rig.worker(f"w{chance.random()}"), 0
    done: list[Settlement] = []
    while not submitted.is_set() or done or await rig.ledger.has_work():
        for lane in await rig.ledger.take_lanes(worker.session, 2):
            worker.lanes[lane.name] = lane.id
        batch = await worker.cycle(done, most=15)
        cycles += 1
        done = [settlement(lease, chance) for lease in batch.leases]
        chance.shuffle(done)
        if not done:
            await rig.ledger.give_lanes(worker.session, {number: GivenLane() for number in worker.lanes.values()})
            worker.lanes.clear()
            await rig.ledger.work_arrived(0.02)
    await rig.ledger.end(worker.session)
    return cycles


async def submit(rig: Rig, chance: random.Random, jobs: list[Any], count: int) -> None:
    for _ in range(count):
        limits = JobLimits(max_cost=chance.choice([None, None, 20]), concurrency=chance.choice([None, 5]))
        plans = [_plan(f"t{n}", chance) for n in range(TASKS)]
        jobs.append((await rig.ledger.submit(NewJob("rig", {"name": "job"}, limits), plans)).job)


async def _do(rig: Rig, verb: str, job: Any) -> None:
    match verb:
        case "sweep":
            await rig.ledger.sweep()
        case "dispatch":
            await rig.ledger.dispatch("rig", RECHECK)
        case _:
            await getattr(rig.ledger, verb)(job)


async def meddle(rig: Rig, chance: random.Random, jobs: list[Any], verbs: list[str]) -> int:
    """Do something to any job; an error for one in the wrong state is expected."""
    meddled = 0
    for _ in range(MEDDLINGS):
        verb = chance.choice(verbs)
        with contextlib.suppress(ForagerError):
            try:
                await _do(rig, verb, chance.choice(jobs))
                meddled += 1
            except StoreError as trouble:
                pytest.fail(f"{verb}: {trouble}")
        await asyncio.sleep(0)
    for job in jobs:
        with contextlib.suppress(ForagerError):
            await rig.ledger.resume(job)
    return meddled


@pytest.mark.parametrize(
    "verbs",
    [
        pytest.param(["pause", "resume", "cancel", "sweep", "dispatch"], id="pause-resume-cancel"),
        pytest.param(["retry", "cancel", "sweep", "dispatch"], id="retry-cancel"),
    ],
)
async def test_turns_submissions_rechecks_and_meddling_together_make_no_deadlock_trap_10(
    postgres_url: str, verbs: list[str]
) -> None:
    rigs = [await postgres_rig(postgres_url, create=first) for first in (True, False)]
    for rig in rigs:
        rig.audited = False
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chances = [random.Random(seed + n) for n in range(2 * WORKERS)]
    jobs: list[Any] = []
    submitted = asyncio.Event()
    await submit(rigs[0], chances[0], jobs, 5)
    working = [asyncio.create_task(work(rigs[n % 2], chances[n], submitted)) for n in range(WORKERS)]
    meddling = asyncio.create_task(meddle(rigs[0], chances[WORKERS], jobs, verbs))
    await asyncio.gather(*(submit(rigs[n % 2], chances[WORKERS + 1 + n], jobs, JOBS // 3) for n in range(3)))
    meddled = await meddling
    submitted.set()
    async with asyncio.timeout(110):
        while not all(task.done() for task in working):
            await rigs[0].ledger.sweep()  # what was cancelled is ended in pages
            await asyncio.wait(working, timeout=0.05)
    cycles = [task.result() for task in working]
    sys.stdout.write(f"{meddled} meddlings, {sum(cycles)} cycles\n")
    assert meddled >= MEDDLINGS // 6
    assert sum(cycles) >= 100
    rigs[0].audited = True
    rigs[0].check()
    for rig in rigs:
        await rig.ledger.close()
        rig.tables.close()
    assert await deadlocks(postgres_url) == 0


async def test_the_server_counts_a_deadlock_of_two_that_lock_in_their_own_order_trap_10(postgres_url: str) -> None:
    """The negative control: without a common order the count is not zero."""
    one, two = [await asyncpg.connect(postgres_url) for _ in range(2)]
    await one.execute("CREATE TABLE row (id int PRIMARY KEY, n int); INSERT INTO row VALUES (1, 0), (2, 0)")

    async def lock(db: Any, first: int, second: int, met: asyncio.Barrier) -> None:
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):  # only a superuser may; the default is 1 s
            await db.execute("SET deadlock_timeout = '50ms'")
        async with db.transaction():
            await db.execute("UPDATE row SET n = n + 1 WHERE id = $1", first)
            await met.wait()
            await db.execute("UPDATE row SET n = n + 1 WHERE id = $1", second)

    met = asyncio.Barrier(2)
    ends = await asyncio.gather(lock(one, 1, 2, met), lock(two, 2, 1, met), return_exceptions=True)
    assert any(isinstance(end, asyncpg.DeadlockDetectedError) for end in ends)
    await one.close()
    await two.close()
    assert await deadlocks(postgres_url) == 1


async def test_many_that_wait_for_one_queue_leave_the_heartbeat_a_connection(postgres_url: str) -> None:
    """Another process holds the queue. Small jobs, bigger ones and those that are written in chunks wait for it."""
    rig = await postgres_rig(postgres_url)
    session = await rig.ledger.begin("alive")
    other = await asyncpg.connect(postgres_url)
    await rig.ledger.submit(NewJob("rig", {"name": "first"}), [Plan(Call(name="t", where="api"))])
    async with other.transaction():
        await other.execute("SELECT pg_advisory_xact_lock(hashtext('queue'), hashtext('rig'))")
        new = NewJob("rig", {"name": "job"}, JobLimits(most_queued=1_000_000))
        jobs = [calls(n) for n in [1, SHARED + 1] * 15] + [calls(IN_ONE_GO + 1)]
        waiting = [asyncio.create_task(rig.ledger.submit(new, plans)) for plans in jobs]
        async with asyncio.timeout(60):
            while await other.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") < 2:
                await asyncio.sleep(0.01)
            for _ in range(3):
                assert await rig.ledger.beat(session, {})
        assert not any(task.done() for task in waiting)
    submitted = await asyncio.gather(*waiting)
    assert sorted(each.total for each in submitted) == sorted([1, SHARED + 1] * 15 + [IN_ONE_GO + 1])
    await other.close()
    rig.check()
    await rig.ledger.close()
    rig.tables.close()
