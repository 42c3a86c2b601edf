"""Submissions that wait for the writer side by side are written together, and each is answered as if it came alone."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forager.core.errors import Busy, Conflict, StoreFull
from forager.core.ids import task_uuid
from forager.core.ledger import Submitted
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.planned import SMALL
from forager.ledger.sqlite import SqliteLedger
from forager.ledger.sqlite.writer import Writer
from tests.support.engine import until
from tests.support.rig import Call, Rig, calls, create_store, sqlite_rig


class Written:
    """Counts the calls that wrote submissions, and the commits."""

    def __init__(self) -> None:
        self.calls = 0
        self.commits = 0

    def at(self, point: str) -> None:
        self.calls += point == "job-written"
        self.commits += point == "before-commit"


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
async def rig(tmp_path: Path, written: Written) -> AsyncIterator[Rig]:
    create_store(tmp_path / "ledger.db")
    made = await sqlite_rig(tmp_path / "ledger.db", faults=written)
    yield made
    made.check()
    await made.ledger.close()
    made.tables.close()


def writer_of(rig: Rig) -> Writer:
    assert isinstance(rig.ledger, SqliteLedger)
    return rig.ledger._writer


async def side_by_side(rig: Rig, *asked: Awaitable[Any]) -> list[Any]:
    """What each of these is told when all of them come while the writer is busy."""
    busy, go_on = threading.Event(), threading.Event()

    def be_busy(db: sqlite3.Connection) -> None:
        busy.set()
        go_on.wait(30)

    holding = asyncio.create_task(writer_of(rig).run(be_busy))
    await asyncio.to_thread(busy.wait, 30)
    waiting = [asyncio.ensure_future(each) for each in asked]
    await until(lambda: writer_of(rig)._commands.qsize() == len(asked))
    go_on.set()
    await holding
    return await asyncio.gather(*waiting, return_exceptions=True)


def jobs(rig: Rig) -> list[tuple[str, int, int, str]]:
    rows = rig.tables.read("SELECT public_id, total, queued, state FROM jobs ORDER BY id")
    return [(row["public_id"], row["total"], row["queued"], row["state"]) for row in rows]


async def test_they_take_one_call_and_keep_their_order(rig: Rig, written: Written) -> None:
    counts = [1, 3, 0, 2, 70]
    told = await side_by_side(rig, *[rig.submit(calls(count, prefix=f"j{n}-")) for n, count in enumerate(counts)])
    assert written.calls == 1
    assert jobs(rig) == [
        (str(each.job), count, count, "queued" if count else "completed")
        for each, count in zip(told, counts, strict=True)
    ]
    firsts = rig.tables.read("SELECT job_id, min(id) AS first FROM tasks GROUP BY job_id")
    first_of = {row["job_id"]: task_uuid(row["job_id"], row["first"]) for row in firsts}
    assert [each.first for each in told] == [first_of.get(number) for number in range(1, 6)]
    worker = await rig.worker()
    assert len(await worker.drain()) == sum(counts)
    created = rig.tables.read("SELECT key FROM changes WHERE op = 'created' ORDER BY id")
    assert [row["key"] for row in created] == [str(each.job) for each in told]


async def test_what_holds_inside_a_job_holds_beside_others(rig: Rig) -> None:
    """Followers, keys, limits and turns are those of its own job, whatever the others bring."""
    chain = [Plan(Call(name="a")), Plan(Call(name="b"), after="a")]
    first, second = await side_by_side(
        rig, rig.submit(chain, turn=5, max_cost=1), rig.submit(list(reversed(calls(2))) + chain, key="k")
    )
    assert rig.states(first.job) == {"a": "ready", "b": "held"}
    assert rig.states(second.job) == {"t0": "ready", "t1": "ready", "a": "ready", "b": "held"}
    assert (rig.job(first.job)["turn"], rig.job(first.job)["max_cost"]) == (5, 1)
    assert (rig.job(second.job)["turn"], rig.job(second.job)["max_cost"]) == (0, None)
    assert (await rig.submit(chain, key="k")).job == second.job
    worker = await rig.worker()
    assert {lease.key for lease in await worker.lease(10)} == {"t0", "t1", "a"}, "the lower turn comes first"


AFTER_NONE = Plan(Call(name="x"), after="none")
"""Refused before anything is written."""
TOO_BIG = Plan(Call(name="x"), rank=2**70)
"""No column can hold it: fails when the rows of all jobs are in."""


@pytest.mark.parametrize(("plan", "error"), [(AFTER_NONE, Conflict), (TOO_BIG, OverflowError)])
async def test_one_that_fails_is_undone_alone(rig: Rig, plan: Plan, error: type[Exception]) -> None:
    good, refused, also = await side_by_side(rig, rig.submit(calls(1)), rig.submit([plan]), rig.submit(calls(2)))
    assert isinstance(refused, error)
    assert [job[:2] for job in jobs(rig)] == [(str(good.job), 1), (str(also.job), 2)]
    worker = await rig.worker()
    assert len(await worker.drain()) == 3


async def test_any_command_that_fails_is_undone_alone(rig: Rig) -> None:
    """Commands of one group share a transaction."""

    def fail(db: sqlite3.Connection) -> None:
        db.execute("UPDATE jobs SET total = 99")
        raise ValueError("no")

    told = await side_by_side(rig, rig.submit(calls(3)), writer_of(rig).run(fail), rig.submit(calls(4)))
    assert isinstance(told[1], ValueError)
    assert [job[1] for job in jobs(rig)] == [3, 4]
    worker = await rig.worker()
    assert len(await worker.drain()) == 7


async def test_only_small_jobs_are_written_together(rig: Rig, written: Written) -> None:
    written.commits = 0
    told = await side_by_side(rig, *[rig.submit(calls(n)) for n in (1, SMALL, SMALL + 1, SMALL + 1)])
    assert [each.total for each in told] == [1, SMALL, SMALL + 1, SMALL + 1]
    assert (written.calls, written.commits) == (3, 1)


async def test_of_one_key_only_the_first_is_created(rig: Rig) -> None:
    told = await side_by_side(
        rig,
        rig.submit(calls(2), key="k"),
        rig.submit(calls(2), key="k"),
        rig.submit(calls(1), key="other"),
        rig.submit(calls(2), key="k", params={"name": "another"}),
    )
    first, again, other, conflict = told
    assert (first.created, again.created, other.created) == (True, False, True)
    assert (again.job, again.total) == (first.job, 2)
    assert isinstance(conflict, Conflict)
    assert [job[0] for job in jobs(rig)] == [str(first.job), str(other.job)]


async def test_a_key_that_was_used_before_is_recognised_beside_new_ones(rig: Rig, written: Written) -> None:
    first = await rig.submit(calls(2), key="k")
    written.calls = 0
    new, again = await side_by_side(rig, rig.submit(calls(1)), rig.submit(calls(2), key="k"))
    assert (new.created, again.created, again.job) == (True, False, first.job)
    assert written.calls == 1


async def test_a_queue_takes_what_it_has_room_for_and_no_more(rig: Rig) -> None:
    """Each counts those that wait beside it, before they are in the table."""
    told = await side_by_side(
        rig, *[rig.submit(calls(n), most_queued=10) for n in (4, 6, 1)], rig.submit(calls(5)), rig.submit(calls(1))
    )
    assert isinstance(told[2], Busy)
    assert "0 of at most 10" in str(told[2])
    assert [job[1] for job in jobs(rig)] == [4, 6, 5, 1]


async def test_a_queue_that_is_just_full_refuses_nothing(rig: Rig, written: Written) -> None:
    told = await side_by_side(rig, *[rig.submit(calls(n), most_queued=10) for n in (4, 6)])
    assert [each.total for each in told] == [4, 6]
    assert written.calls == 1


async def test_a_full_disk_refuses_all_of_them_and_keeps_none__R10(rig: Rig) -> None:
    def limit(db: sqlite3.Connection, more: int) -> None:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + more}")

    await writer_of(rig).run(lambda db: limit(db, 4))
    fat = [calls(300, prefix="x" * 200) for _ in range(3)]
    told = await side_by_side(rig, *[rig.submit(plans) for plans in fat])
    assert all(isinstance(each, StoreFull) for each in told)
    assert jobs(rig) == []
    await writer_of(rig).run(lambda db: limit(db, 10_000))
    assert [each.total for each in await side_by_side(rig, *[rig.submit(plans) for plans in fat])] == [300] * 3


async def test_numbers_of_jobs_that_were_undone_are_not_given_again(rig: Rig) -> None:
    await side_by_side(rig, rig.submit(calls(1)), rig.submit([TOO_BIG]))
    await rig.submit(calls(1))
    (last,) = rig.tables.read("SELECT max(id) AS id FROM jobs")
    assert last["id"] > 2


async def test_only_neighbours_of_one_command_are_done_by_one_call(rig: Rig) -> None:
    writer = writer_of(rig)
    done: list[object] = []

    def together(db: sqlite3.Connection, items: Sequence[int]) -> list[int]:
        done.append(list(items))
        return [item * 10 for item in items]

    def alone(db: sqlite3.Connection) -> str:
        done.append("alone")
        return "alone"

    def other(db: sqlite3.Connection, items: Sequence[int]) -> list[int]:
        done.append(("other", *items))
        return list(items)

    told = await side_by_side(
        rig,
        *[writer.run_together(together, n, followed=False) for n in (1, 2)],
        writer.run(alone),
        writer.run(alone),
        *[writer.run_together(together, n, followed=False) for n in (3, 4)],
        writer.run_together(other, 5, followed=False),
    )
    assert done == [[1, 2], "alone", "alone", [3, 4], ("other", 5)]
    assert told == [10, 20, "alone", "alone", 30, 40, 5]


async def test_a_worker_that_waits_finds_them_all(rig: Rig) -> None:
    worker = await rig.worker()
    await worker.take_lanes()
    listening = asyncio.create_task(rig.ledger.work_arrived(30))
    await asyncio.sleep(0)
    told = await side_by_side(rig, *[rig.submit(calls(1, prefix=f"{n}-")) for n in range(4)])
    async with asyncio.timeout(10):
        await listening
    assert all(isinstance(each, Submitted) for each in told)
    await worker.take_lanes()
    leases = await worker.lease(10)
    assert len(leases) == 4
    await worker.settle(leases[0], TaskState.COMPLETED)
