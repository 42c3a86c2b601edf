"""Commands that wait at the same time, on the embedded store."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from forager.core.errors import Busy, StoreFull
from forager.core.task import Plan
from forager.ledger.rules.jobs import SMALL
from tests.support.rig import Rig, embedded_rig
from tests.support.rig_pipelines import Call, calls
from tests.support.same_commit import Writes, side_by_side, writer_of


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with embedded_rig(tmp_path) as made:
        yield made


def totals(rig: Rig) -> list[int]:
    return [row["total"] for row in rig.tables.read("SELECT total FROM jobs ORDER BY id")]


async def test_any_command_that_fails_is_undone_alone(rig: Rig) -> None:
    """Commands of one group share a transaction."""

    def fail(db: sqlite3.Connection) -> None:
        db.execute("UPDATE jobs SET total = 99")
        raise ValueError("no")

    told = await side_by_side(rig, rig.submit(calls(3)), writer_of(rig.ledger).run(fail), rig.submit(calls(4)))
    assert isinstance(told[1], ValueError)
    assert totals(rig) == [3, 4]
    worker = await rig.worker()
    assert len(await worker.drain()) == 7


async def test_only_small_jobs_are_written_together(rig: Rig) -> None:
    writes = Writes(rig)
    told = await side_by_side(rig, *[rig.submit(calls(n)) for n in (1, SMALL, SMALL + 1, SMALL + 1)])
    assert [each.total for each in told] == [1, SMALL, SMALL + 1, SMALL + 1]
    assert writes.calls == 3


def _let_grow(db: sqlite3.Connection, pages: int) -> None:
    (there,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {there + pages}")


async def test_a_full_disk_refuses_all_of_them_and_keeps_none__R10(rig: Rig) -> None:
    writer = writer_of(rig.ledger)
    await writer.run(lambda db: _let_grow(db, 4))
    fat = [calls(200, prefix="x" * 400) for _ in range(3)]
    told = await side_by_side(rig, *[rig.submit(plans) for plans in fat])
    assert all(isinstance(each, StoreFull) for each in told)
    assert totals(rig) == []
    await writer.run(lambda db: _let_grow(db, 10_000))
    assert [each.total for each in await side_by_side(rig, *[rig.submit(plans) for plans in fat])] == [200] * 3


async def test_commands_behind_one_that_fills_the_disk_are_done__R10(rig: Rig) -> None:
    """Commands whose work was undone with it fail; those that had not begun do not fail with them."""
    writer = writer_of(rig.ledger)
    await writer.run(lambda db: db.execute("CREATE TABLE fat (body)"))
    await rig.submit(calls(1))
    await writer.run(lambda db: _let_grow(db, 8))

    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO fat VALUES (zeroblob(2000000))")  # so much that SQLite undoes the whole transaction

    told = await side_by_side(
        rig, rig.submit(calls(2)), writer.run(fill), rig.submit(calls(3)), rig.ledger.sweep(), rig.submit(calls(4))
    )
    assert [isinstance(each, StoreFull) for each in told] == [True, True, False, False, False]
    assert totals(rig) == [1, 3, 4]


async def test_numbers_of_jobs_that_were_undone_are_not_given_again(rig: Rig) -> None:
    await side_by_side(rig, rig.submit(calls(1)), rig.submit([Plan(Call(name="x"), rank=2**70)]))
    await rig.submit(calls(1))
    (last,) = rig.tables.read("SELECT max(id) AS id FROM jobs")
    assert last["id"] > 2


async def test_only_neighbours_of_one_command_are_done_by_one_call(rig: Rig) -> None:
    writer = writer_of(rig.ledger)
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


async def test_a_queue_takes_what_it_has_room_for_and_no_more(rig: Rig) -> None:
    """Each counts the others that wait, before they are in the table."""
    told = await side_by_side(
        rig, *[rig.submit(calls(n), most_queued=10) for n in (4, 6, 1)], rig.submit(calls(5)), rig.submit(calls(1))
    )
    assert isinstance(told[2], Busy)
    assert "0 of at most 10" in str(told[2])
    assert totals(rig) == [4, 6, 5, 1]


async def test_a_queue_that_is_just_full_refuses_nothing(rig: Rig) -> None:
    writes = Writes(rig)
    told = await side_by_side(rig, *[rig.submit(calls(n), most_queued=10) for n in (4, 6)])
    assert [each.total for each in told] == [4, 6]
    assert writes.calls == 1
