"""Retention that is killed in the middle of a page, messages that were delivered, and the space that comes back."""

import asyncio
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.ledger import NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.core.upkeep import Keep, Pruned
from forager.sinks.webhook.pipeline import standing_job
from forager.sinks.webhook.receivers import WebhookDelivery
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.chaos import gone
from tests.support.engine import EngineRig
from tests.support.retention_process import AGE, Options, start
from tests.support.rig_pipelines import RECORDS, Call, Seen, Thing
from tests.support.sink_suite import open_store

DAY = 86_400.0
KILLED = -9
POINTS = ("pruned", "before-commit", "after-commit")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "sqlite" else str(request.getfixturevalue("unmade_postgres_url"))


def tables_of(store: str) -> Tables:
    return PostgresTables(store) if "://" in store else SqliteTables(Path(store) / "ledger.db")


async def fill(store: str, jobs: int, tasks: int) -> None:
    """Jobs that have ended, each with what it found, all of it delivered and old enough."""
    engine = await open_store(store)
    ledger = engine.ledger
    for number in range(jobs):
        plans = [Plan(Call(name=f"t{n}")) for n in range(tasks)]
        await ledger.submit(NewJob("rig", {"name": f"job {number}"}), plans)
    session = await ledger.begin("by hand")
    (lane,) = await ledger.take_lanes(session, 10)
    done: list[Settlement] = []
    while True:
        leases = (await ledger.settle_and_lease(session, done, [Want(lane.id, 100)])).leases
        if not leases:
            break
        found = [[Thing(uid=f"{each.task_id}"), Seen(uid=f"{each.task_id}")] for each in leases]
        done = [Settlement(each, TaskState.COMPLETED, records=own) for each, own in zip(leases, found, strict=True)]
    await ledger.end(session)
    await engine.close()


async def test_kills_during_a_retention_page_leave_nothing_half_removed(store: str, tmp_path: Path) -> None:
    """The child's pages are small and everything is old to it at once; the auditor looks after every death."""
    seed = random.randrange(1_000_000)
    chance, fired = random.Random(seed), 0
    await fill(store, 12, 9)
    tables = tables_of(store)
    before = sorted(row["id"] for row in tables.read("SELECT id FROM jobs"))
    for life in range(9):
        options = Options(store, point=POINTS[life % 3], nth=chance.randint(1, 4))
        fired += await gone(start(options), 60) == KILLED
        assert audit(tables, RECORDS, pruned=True) == [], f"seed {seed}"
        left = {row["id"] for row in tables.read("SELECT id FROM jobs")}
        removed = {row["id"] for row in tables.read("SELECT id FROM past_jobs")}
        assert sorted(left | removed) == before, f"seed {seed}: a job is there, or its name is"
        assert not left & removed
    assert fired >= 6, f"seed {seed}"
    assert await gone(start(Options(store)), 60) == 0
    assert audit(tables, RECORDS, pruned=True) == []
    for table in ("jobs", "tasks", "evidence"):
        assert tables.read(f"SELECT count(*) AS n FROM {table}") == [{"n": 0}], table
    assert tables.read("SELECT count(*) AS n FROM rig_seen") == [{"n": 108}], "records are not pruned unless requested"
    tables.close()


async def test_a_build_that_removes_tasks_before_their_job_is_found_out(tmp_path: Path) -> None:
    """The negative control of the test above."""
    await fill(str(tmp_path), 3, 4)
    assert await gone(start(Options(str(tmp_path), point="pruned", broken=True)), 60) == KILLED
    tables = tables_of(str(tmp_path))
    assert audit(tables, RECORDS, pruned=True) != []
    tables.close()


async def deliveries(engine: EngineRig, count: int) -> None:
    plans = [Plan(WebhookDelivery(id=f"m{n:04}", receiver="default", host="h", body="{}", at=0)) for n in range(count)]
    await engine.ledger.append(standing_job("default"), plans)


async def settle_deliveries(engine: EngineRig, states: list[TaskState]) -> None:
    ledger = engine.ledger
    session = await ledger.begin("by hand")
    (lane,) = await ledger.take_lanes(session, 10)
    leases = (await ledger.settle_and_lease(session, [], [Want(lane.id, len(states))])).leases
    await ledger.settle_and_lease(
        session, [Settlement(each, state) for each, state in zip(leases, states, strict=True)], []
    )
    await ledger.end(session)
    await asyncio.sleep(0.005)  # times are whole milliseconds: what ended in this one is not older than `AGE` yet


async def test_delivered_messages_go_and_their_standing_job_counts_what_is_left(store: str) -> None:
    engine = await open_store(store)
    await deliveries(engine, 6)
    await settle_deliveries(engine, [TaskState.COMPLETED] * 4 + [TaskState.FAILED])
    keep = Keep(jobs=AGE, messages=AGE)
    assert (await engine.ledger.prunable(keep, [])).messages == 4
    sum_ = Pruned(more=True)
    while sum_.more:
        sum_ += await engine.ledger.prune(keep, [])
    assert (sum_.messages, sum_.jobs) == (4, 0)
    broken = audit(engine.tables, (), pruned=True)
    assert broken == []
    (job,) = engine.tables.read("SELECT total, queued, completed, failed, state FROM jobs")
    assert job == {"total": 2, "queued": 1, "completed": 0, "failed": 1, "state": "running"}
    again = await engine.ledger.append(
        standing_job("default"), [Plan(WebhookDelivery(id="m0005", receiver="default", host="h", body="{}", at=0))]
    )
    assert again.total == 0, "what waits is still known by its id"
    await engine.close()


async def test_the_embedded_store_gives_the_space_back(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    await (await open_store(str(tmp_path))).close()
    empty = _size(file)
    await fill(str(tmp_path), 5, 400)
    filled = _size(file) - empty
    engine = await open_store(str(tmp_path))
    keep = Keep(jobs=AGE, changes=AGE, records=AGE)
    sum_ = Pruned(more=True)
    while sum_.more:
        sum_ += await engine.ledger.prune(keep, [])
    await engine.close()
    assert (sum_.jobs, sum_.tasks) == (5, 2_000)
    assert _size(file) - empty < filled / 2
    with sqlite3.connect(file) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA freelist_count").fetchone() == (0,)


def _size(file: Path) -> int:
    """Return the contents of the file alone."""
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size


async def test_the_application_prunes_by_its_settings(tmp_path: Path) -> None:
    settings: Any = new_settings(home=tmp_path, keep_jobs_days=1e-9, keep_changes_days=1e-9)
    async with open_app(settings) as app:
        assert app.keep.records is None
        async with app.engine(schedules=False):
            await app.submit("places", {"keyword": "bars", "zips": ["85001"], "dry_run": True})
            while not await app.has_delivered():
                pass
            for name, delivery in app.deliveries.items():
                while (await app.sinks.position(name)).cursor == 0:
                    await delivery.deliver_new()
            would = await app.prunable()
            assert (would.jobs, would.changes) == (1, 1)
            sum_ = Pruned(more=True)
            while sum_.more:
                sum_ += await app.prune()
            assert sum_.jobs == 1
            assert (await app.reports.jobs()).items == []


async def test_by_default_records_and_changes_are_kept_for_ever(tmp_path: Path) -> None:
    async with open_app(new_settings(home=tmp_path)) as app:
        assert (app.keep.changes, app.keep.records) == (None, None)
        assert app.keep.jobs == 90 * DAY
