"""Lanes belong to queues, and a session may serve some queues only: it takes no other lanes, and shares those of each
queue with the sessions that serve it."""

from collections.abc import Sequence

import pytest

from forager.core.task import Plan
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.ledger.postgres import PostgresLedger
from forager.ledger.postgres import lanes as postgres_lanes
from forager.ledger.rules.scheduling import SQLITE_HINT, free_by_queue
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite import lanes as sqlite_lanes
from forager.ledger.tables.domains import follow_declared
from tests.support.rig import LEASE, Rig, Worker
from tests.support.rig_pipelines import DearCall, calls

PLENTY = 100


@pytest.fixture(autouse=True)
def queues(rig: Rig) -> None:
    """`blue:*` and `red:*` are families of lanes with a queue each; all other lanes are in the default queue."""
    rig.catalog.queues.update({"blue:*": "blue", "red:*": "red"})


async def with_lanes(rig: Rig, *names: str, turn: int = 0) -> None:
    for name in names:
        await rig.submit(calls(2, where=name, prefix=f"{name}/"), turn=turn)


async def session(rig: Rig, *queues: str, wants: int = 0, all_: bool = False) -> Worker:
    worker = Worker(rig, await rig.ledger.begin("worker", None if all_ else list(queues)))
    assert await rig.ledger.beat(worker.session, {}, wants)
    return worker


async def taken(worker: Worker) -> Sequence[str]:
    return sorted(lane.name for lane in await worker.rig.ledger.take_lanes(worker.session, PLENTY))


async def test_a_session_takes_only_lanes_of_its_queues(rig: Rig) -> None:
    await with_lanes(rig, "blue:1", "red:1", "api", "blue:2")
    blue, rest = await session(rig, "blue"), await session(rig, "red", DEFAULT_QUEUE)
    assert await taken(blue) == ["blue:1", "blue:2"]
    assert await taken(blue) == []
    assert await taken(rest) == ["api", "red:1"]


async def test_a_session_without_queues_takes_all_lanes_and_one_with_none_takes_no_lane(rig: Rig) -> None:
    await with_lanes(rig, "blue:1", "red:1", "api")
    assert await taken(await session(rig)) == []
    assert await taken(await session(rig, all_=True)) == ["api", "blue:1", "red:1"]


async def test_the_lowest_turn_of_its_queues_comes_first_if_there_is_not_room_for_all(rig: Rig) -> None:
    await with_lanes(rig, "blue:late", turn=5)
    await with_lanes(rig, "blue:soon", "red:soon", turn=1)
    await with_lanes(rig, "api", turn=0)
    both = await session(rig, "blue", "red")
    assert list((await rig.ledger.demand(both.session, [], 2)).waiting) == [1, 1]
    first = await rig.ledger.take_lanes(both.session, 2)
    assert sorted(lane.name for lane in first) == ["blue:soon", "red:soon"]
    assert {lane.queue for lane in first} == {"blue", "red"}
    assert [lane.name for lane in await rig.ledger.take_lanes(both.session, 2)] == ["blue:late"]


async def test_each_queue_is_shared_among_the_sessions_that_serve_it(rig: Rig) -> None:
    await with_lanes(rig, *(f"blue:{number}" for number in range(6)), *(f"lane{number}" for number in range(4)))
    everything = await session(rig, all_=True, wants=PLENTY)
    assert len(await taken(everything)) == 10
    blue = await session(rig, "blue", wants=PLENTY)
    assert await rig.ledger.surplus(everything.session) == {"blue": 3}, "it could not use lanes of other queues"
    await with_lanes(rig, "lane9", "blue:9")
    assert await taken(everything) == ["lane9"], "it has more than its part of the blue ones"
    assert await taken(blue) == ["blue:9"]
    rig.pass_time(LEASE + 1)
    assert await rig.ledger.surplus(everything.session) == {}


async def test_sessions_of_different_queues_leave_one_another_alone(rig: Rig) -> None:
    await with_lanes(rig, *(f"blue:{number}" for number in range(4)))
    blue = await session(rig, "blue", wants=PLENTY)
    await session(rig, "red", wants=PLENTY)
    assert len(await taken(blue)) == 4
    assert await rig.ledger.surplus(blue.session) == {}


async def test_lanes_of_an_earlier_version_get_the_queue_that_is_declared(rig: Rig) -> None:
    await with_lanes(rig, "blue:1", "api", "bluest")
    rig.write("UPDATE lanes SET queue = 'celery'")
    await follow_declared(rig.ledger.database, {"blue:*": "blue", "api": "red"})
    rows = await rig.ledger.database.fetch("SELECT name, queue FROM lanes ORDER BY name")
    assert {row["name"]: row["queue"] for row in rows} == {"api": "red", "blue:1": "blue", "bluest": "celery"}


async def test_the_first_task_decides_on_the_queue_of_a_lane_that_was_mentioned_before(rig: Rig) -> None:
    await with_lanes(rig, "working")
    await rig.ledger.pause_lane("paused.example", paused=True)
    await rig.ledger.take_lane((await session(rig)).session, "redirected.example")
    rig.catalog._site_queues["dear-call"] = "blue"
    if isinstance(rig.ledger, SqliteLedger):  # as another process: it has not met the lane that has tasks
        rig.ledger._memory.lanes.clear()
    elif isinstance(rig.ledger, PostgresLedger):
        rig.ledger._lanes.known.clear()
    for name in ("working", "paused.example", "redirected.example"):
        await rig.submit([Plan(DearCall(name=name, where=name))])
    rows = await rig.ledger.database.fetch("SELECT name, queue FROM lanes")
    assert {row["name"]: row["queue"] for row in rows} == {
        "working": DEFAULT_QUEUE,
        "paused.example": "blue",
        "redirected.example": "blue",
    }


async def test_lanes_of_other_queues_are_not_read(rig: Rig) -> None:
    await with_lanes(rig, "blue:1")
    if isinstance(rig.ledger, SqliteLedger):
        plan = rig.tables.read(f"EXPLAIN QUERY PLAN {_with_values(sqlite_lanes._AWAKE_IN)}")
        how = [row["detail"] for row in plan if "lanes" in row["detail"] or " l " in row["detail"]]
        assert how == ["SEARCH l USING INDEX ix_lanes_queue_wake_at (queue=? AND wake_at<?)"]
        return
    assert isinstance(rig.ledger, PostgresLedger)
    async with rig.ledger._connections.hot.acquire() as db:
        for sql in (postgres_lanes._TAKE_ALL_FROM, postgres_lanes._TAKE_BEST_FROM):
            rows = await db.fetch(f"EXPLAIN {sql}", 10, 5, 1, ["blue"], [5])
            plan_text = "\n".join(row[0] for row in rows)
            assert "Index Scan using ix_lanes_queue_wake_at" in plan_text, plan_text
            assert "Seq Scan on lanes" not in plan_text


async def test_the_lanes_of_each_queue_are_counted_up_to_a_limit_through_the_index(rig: Rig) -> None:
    await with_lanes(rig, "blue:1", "blue:2", "blue:3", "red:1", "red:2", "api", "green")
    rig.write("UPDATE lanes SET queue = 'green' WHERE name = 'green'")
    await rig.ledger.pause_lane("red:2", paused=True)
    await rig.ledger.take_lane((await session(rig)).session, "green")
    now = await rig.ledger.now_ms()
    hint = SQLITE_HINT if isinstance(rig.ledger, SqliteLedger) else ""
    rows = await rig.ledger.database.fetch(free_by_queue(":now", ":most", hint), {"now": now, "most": 2})
    assert {row["queue"]: row["lanes"] for row in rows} == {"blue": 2, DEFAULT_QUEUE: 1, "red": 1}
    sql = free_by_queue("4000", "5", hint)
    if hint:
        plan = [row["detail"] for row in rig.tables.read(f"EXPLAIN QUERY PLAN {sql}")]
        reads = [each for each in plan if " lanes" in each or " l " in each]
    else:
        rig.write(
            "INSERT INTO lanes (name, queue, wake_at) SELECT 'x' || n, 'x' || n % 3, n FROM generate_series(1, 5000) n"
        )
        rig.write("ANALYZE lanes")
        plan = [row["QUERY PLAN"] for row in rig.tables.read(f"EXPLAIN ANALYZE {sql}")]
        reads = [each for each in plan if " on lanes" in each]
    assert len(reads) == 3
    assert all("ix_lanes_queue_wake_at" in each for each in reads), plan


def _with_values(sql: str) -> str:
    return sql.replace("?1", "'[\"blue\"]'").replace("?2", "10").replace("?3", "5")
