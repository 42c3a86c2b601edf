"""A recheck killed in the middle of a page: no record loses its due time without a task, none gets two tasks."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forager.core.ledger import NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.chaos import gone
from tests.support.recheck_process import Options, start
from tests.support.rig_pipelines import RECHECK, RECORDS, Call, Item
from tests.support.sink_suite import open_store

KILLED = -9
ITEMS = 60
LIVES = 9
POINTS = ("dispatched", "before-commit", "after-commit")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "sqlite" else str(request.getfixturevalue("unmade_postgres_url"))


def tables_of(store: str) -> Tables:
    return PostgresTables(store) if "://" in store else SqliteTables(Path(store) / "ledger.db")


async def fill(store: str) -> None:
    """Items that are due."""
    engine = await open_store(store)
    ledger = engine.ledger
    await ledger.submit(NewJob("rig", {"name": "job"}), [Plan(Call(name="find"))])
    session = await ledger.begin("by hand")
    (lane,) = await ledger.take_lanes(session, 10)
    (lease,) = (await ledger.settle_and_lease(session, [], [Want(lane.id, 1)])).leases
    due = datetime(2026, 1, 1, tzinfo=UTC)
    found = [Item(uid=f"i{number}", due=due.replace(minute=number)) for number in range(ITEMS)]
    await ledger.settle_and_lease(session, [Settlement(lease, TaskState.COMPLETED, records=found)], [])
    await ledger.end(session)
    await engine.close()


def findings(tables: Tables) -> list[str]:
    """Return violations: a record must be due or have a task, never both or neither."""
    due = {row["uid"] for row in tables.read("SELECT uid FROM rig_items WHERE due IS NOT NULL")}
    looked = [row["key"].removeprefix("look ") for row in tables.read("SELECT key FROM tasks WHERE key LIKE 'look %'")]
    lost = {f"i{number}" for number in range(ITEMS)} - due - set(looked)
    found = [f"{uid} has lost its due time" for uid in sorted(lost)]
    found += [f"{uid} has two tasks" for uid in sorted(set(looked)) if looked.count(uid) > 1]
    found += [f"{uid} is due and has a task" for uid in sorted(due & set(looked))]
    counted = sum(row["dispatched"] for row in tables.read("SELECT dispatched FROM rechecks"))
    if counted != len(looked):
        found.append(f"{len(looked)} tasks, the recheck has counted {counted}")
    return found + audit(tables, RECORDS)


async def test_kills_during_a_dispatch_lose_no_record_and_double_none(store: str) -> None:
    seed = random.randrange(1_000_000)
    chance, fired = random.Random(seed), 0
    await fill(store)
    tables = tables_of(store)
    for life in range(LIVES):
        fired += await gone(start(Options(store, POINTS[life % 3], nth=1 + chance.randrange(2))), 60) == KILLED
        assert findings(tables) == [], f"seed {seed}"
    assert fired >= LIVES - 2, f"seed {seed}"
    assert await gone(start(Options(store)), 60) == 0
    assert findings(tables) == [], f"seed {seed}"
    assert tables.read("SELECT count(*) AS n FROM rig_items WHERE due IS NOT NULL") == [{"n": 0}]
    assert tables.read(f"SELECT count(*) AS n FROM idempotency WHERE key = '{RECHECK.job_key}'") == [{"n": 1}]
    tables.close()


async def test_a_build_that_clears_due_times_before_it_adds_tasks_is_found_out(tmp_path: Path) -> None:
    """The negative control of the test above."""
    await fill(str(tmp_path))
    assert await gone(start(Options(str(tmp_path), "dispatched", broken=True)), 60) == KILLED
    tables = tables_of(str(tmp_path))
    assert any("has lost its due time" in each for each in findings(tables))
    tables.close()
