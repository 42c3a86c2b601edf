"""Lanes whose limits are per worker: on PostgreSQL every session uses them at once; on SQLite they are owned."""

import asyncio
from collections.abc import Sequence

import pytest

from forager.core.ledger import GivenLane, OwnedLane, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.reports import LedgerReports
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.tables.domains import follow_declared
from tests.support.rig import LEASE, Rig, Worker
from tests.support.rig_pipelines import Call, calls

on_postgres = pytest.mark.parametrize("rig", ["postgres"], indirect=True)


@pytest.fixture(autouse=True)
def shared(rig: Rig) -> None:
    rig.catalog.shared = frozenset({"api", "each:*"})


async def workers(rig: Rig, count: int) -> list[Worker]:
    return [Worker(rig, await rig.ledger.begin(f"worker {number}")) for number in range(count)]


def asleep(rig: Rig) -> bool:
    (row,) = rig.tables.read("SELECT wake_at FROM lanes WHERE name = 'api'")
    return row["wake_at"] is None


async def leave(worker: Worker, name: str = "api") -> None:
    await worker.rig.ledger.give_lanes(worker.session, {worker.lanes.pop(name): GivenLane()})


async def test_a_shared_lane_is_given_to_all_sessions_and_each_task_to_one_of_them__RV_5(rig: Rig) -> None:
    job = (await rig.submit(calls(40))).job
    three = await workers(rig, 3)
    took = [await worker.take_lanes() for worker in three]
    if isinstance(rig.ledger, SqliteLedger):
        assert took == [["api"], [], []]
        return
    assert took == [["api"]] * 3
    assert [await worker.take_lanes() for worker in three] == [[]] * 3, "they use it already"
    wants = [[Want(worker.lanes["api"], 10)] for worker in three]
    batches = await asyncio.gather(
        *(rig.ledger.settle_and_lease(w.session, [], want) for w, want in zip(three, wants, strict=True))
    )
    leased = [lease.key for batch in batches for lease in batch.leases]
    assert len(leased) == len(set(leased)) == 30
    for worker, batch in zip(three, batches, strict=True):
        await worker.complete(batch.leases)
    await three[2].drain()
    assert rig.job(job)["completed"] == 40


@on_postgres
async def test_it_is_no_part_of_any_share__RV_5(rig: Rig) -> None:
    await rig.submit(calls(5))
    for number in range(4):
        await rig.submit(calls(2, where=f"lane{number}", prefix=f"{number}/"))
    first, second = await workers(rig, 2)
    assert len(await first.take_lanes()) == 5
    await rig.ledger.beat(second.session, {}, 100)
    assert await second.take_lanes() == ["api"]
    assert await rig.ledger.surplus(first.session) == {None: 2}


@on_postgres
async def test_it_sleeps_when_the_last_finds_nothing_and_wakes_with_new_work(rig: Rig) -> None:
    await rig.submit(calls(1))
    first, second = await workers(rig, 2)
    assert await first.take_lanes() == await second.take_lanes() == ["api"]
    (lease,) = await first.lease()
    await leave(second)
    assert asleep(rig)
    child = Settlement(lease, TaskState.COMPLETED, tasks=[Plan(Call(name="child"))])
    await first.cycle([child])
    assert await second.take_lanes() == ["api"], "its user is not its owner, so others are notified of the child"
    (again,) = (await second.cycle(most=1)).leases
    await second.settle(again, TaskState.WAITING, wait=5.0)
    await leave(first)
    await leave(second)
    assert await first.take_lanes() == []
    rig.pass_time(6)
    assert await first.drain() == ["child"]
    await leave(first)
    assert asleep(rig)


@on_postgres
async def test_the_tasks_of_a_dead_session_are_retried_by_another_user_of_the_lane(rig: Rig) -> None:
    job = (await rig.submit(calls(3))).job
    dead, other = await workers(rig, 2)
    assert len(await dead.lease(2)) == 2
    rig.pass_time(LEASE + 1)
    assert await rig.ledger.beat(other.session, {}) is not None
    assert (await rig.ledger.sweep()).rescued == 2
    assert len(await other.lease()) == 1
    assert (await other.cycle(most=1)).suspects
    rescued: Sequence[str] = [lease.key for lease in await rig.ledger.lease_suspects(other.session)]
    assert rescued
    assert set(rig.states(job).values()) <= {"running", "suspect"}


@on_postgres
async def test_a_pause_and_queues_hold_for_it(rig: Rig) -> None:
    rig.catalog.queues["each:*"] = "blue"
    await rig.submit(calls(2, where="each:1"))
    red = Worker(rig, await rig.ledger.begin("red", ["red"]))
    blue = Worker(rig, await rig.ledger.begin("blue", ["blue"]))
    assert await red.take_lanes() == []
    assert await blue.take_lanes() == ["each:1"]
    await rig.ledger.pause_lane("each:1", paused=True)
    assert not (await blue.cycle(most=2)).leases
    assert await (await rig.worker()).take_lanes() == []
    await rig.ledger.pause_lane("each:1", paused=False)
    assert len((await blue.cycle(most=2)).leases) == 2


@on_postgres
async def test_it_waits_for_a_worker_while_no_session_serves_its_queue(rig: Rig) -> None:
    rig.catalog.queues["each:*"] = "blue"
    await rig.submit(calls(2, where="each:1"))

    async def waiting() -> dict[str, int]:
        load = await LedgerReports(rig.ledger.database, rig.catalog).waiting_by_queue(await rig.ledger.now_ms())
        return {queue: each.lanes for queue, each in load.items()}

    red = await rig.ledger.begin("red", ["red"])
    assert await waiting() == {"blue": 1}
    blue = await rig.ledger.begin("blue", ["red", "blue"])
    assert await waiting() == {}
    await rig.ledger.end(blue)
    await rig.ledger.end(red)
    assert await waiting() == {"blue": 1}
    await rig.ledger.begin("any")
    assert await waiting() == {}


@on_postgres
async def test_by_name_it_is_given_to_every_session(rig: Rig) -> None:
    for worker in await workers(rig, 2):
        lane = await rig.ledger.take_lane(worker.session, "api")
        assert isinstance(lane, OwnedLane)
        assert (lane.shared, lane.epoch, lane.state) == (True, 1, {})


@on_postgres
async def test_a_lane_whose_declared_scope_changes_is_shared_or_owned_from_the_next_start_on(rig: Rig) -> None:
    rig.catalog.shared = frozenset()
    await rig.submit(calls(10))
    first, second = await workers(rig, 2)
    assert await first.take_lanes() == ["api"]
    await follow_declared(rig.ledger.database, {"api": "celery"}, {"api"})
    assert await second.take_lanes() == ["api"]
    assert len((await first.cycle(most=1)).leases) == len((await second.cycle(most=1)).leases) == 1
    await follow_declared(rig.ledger.database, {"api": "celery"}, ())
    assert not (await second.cycle(most=1)).leases
    third = await rig.worker()
    assert list(third.lanes) == ["api"]
    assert await (await rig.worker()).take_lanes() == []
