"""Behaviour of the embedded store alone: one process, a full disk, a wrong clock, a restart."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.clock import SystemClock
from forager.core.errors import StoreError, StoreFull, StoreLocked, StoreUnavailable
from forager.core.ledger import Lease, NewJob, Settlement
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.sqlite import SqliteLedger, connection
from forager.ledger.sqlite.upkeep import compact
from tests.support.auditor import SqliteTables
from tests.support.rig import HandClock, Rig, Worker, create_store, open_sqlite, sqlite_rig
from tests.support.rig_pipelines import Call, Seen, Thing, calls
from tests.support.rig_pipelines import catalog as pipelines_catalog

HOUR = 3600


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_store(tmp_path / "ledger.db")
    return tmp_path / "ledger.db"


@pytest.fixture
async def rig(path: Path) -> AsyncIterator[Rig]:
    made = await sqlite_rig(path)
    yield made
    made.check()
    await made.ledger.close()
    made.tables.close()


async def test_the_store_belongs_to_one_process(rig: Rig, path: Path) -> None:
    with pytest.raises(StoreLocked, match="belongs to one process"):
        await open_sqlite(path, HandClock())


class FullAtTheStart:
    """The disk is full at the first commit."""

    def __init__(self) -> None:
        self.commits = 0

    def at(self, point: str) -> None:
        self.commits += point == "before-commit"
        if self.commits == 1:
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full


async def test_a_store_that_could_not_be_opened_on_a_full_disk_can_be_opened_by_the_same_process(path: Path) -> None:
    catalog, clock = pipelines_catalog(), HandClock()
    with pytest.raises(StoreFull):
        await SqliteLedger.open(path, catalog, clock=clock, faults=FullAtTheStart())
    ledger = await SqliteLedger.open(path, catalog, clock=clock)
    await ledger.close()


class WatchedConnection(sqlite3.Connection):
    """Notes with every commit, and every statement outside a transaction, how far the connection waits for the disk."""

    seen: ClassVar[list[tuple[str, str, int]]] = []
    """File, kind of statement, and `PRAGMA synchronous`: 0 OFF, 1 NORMAL, 2 FULL."""

    def __init__(self, database: Any, *args: Any, **more: Any) -> None:
        super().__init__(database, *args, **more)
        self._name = Path(str(database)).name

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        verb = sql.split(None, 1)[0].upper()
        if verb in ("COMMIT", "VACUUM"):
            self._note(verb)
        return super().execute(sql, *args)

    def commit(self) -> None:
        self._note("commit()")
        super().commit()

    def _note(self, verb: str) -> None:
        self.seen.append((self._name, verb, super().execute("PRAGMA synchronous").fetchone()[0]))


async def test_every_connection_that_writes_to_the_ledger_waits_for_the_disk__R1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating the tables, working and compacting: with OFF or NORMAL, a power cut would take what was confirmed."""
    real = sqlite3.connect
    for module in (sqlite3, sqlite3.dbapi2):
        monkeypatch.setattr(module, "connect", lambda *args, **more: real(*args, factory=WatchedConnection, **more))
    monkeypatch.setattr(WatchedConnection, "seen", [])
    async with open_app(new_settings(home=tmp_path)) as app:
        await app.submit("products", {"urls": ["https://shop.example/p/1"]})
        await app.database.write("UPDATE jobs SET turn = 0")
    compact(tmp_path / "ledger.db")
    ours = [each for each in WatchedConnection.seen if each[0] == "ledger.db"]
    assert {verb for _, verb, _ in ours} == {"commit()", "COMMIT", "VACUUM"}, "one of the ways was not taken"
    assert {synchronous for *_, synchronous in ours} == {2}


async def test_lanes_that_wake_together_are_taken_in_the_order_of_the_plan(rig: Rig) -> None:
    names = [f"lane{n}" for n in (5, 1, 4, 0, 3, 2)]
    await rig.submit([Plan(Call(name=f"{name}/{n}", where=name)) for n in range(2) for name in names])
    worker = Worker(rig, await rig.ledger.begin("later"))
    assert await worker.take_lanes() == names


async def test_a_store_without_a_schema_is_refused_and_left_unlocked(tmp_path: Path) -> None:
    bad = tmp_path / "empty" / "ledger.db"
    bad.parent.mkdir()
    for _ in range(2):
        with pytest.raises(StoreError):
            await open_sqlite(bad, HandClock())


async def test_a_closed_ledger_raises_an_error_instead_of_waiting_for_ever(path: Path) -> None:
    ledger = await open_sqlite(path, HandClock())
    closing = asyncio.ensure_future(ledger.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(ledger.sweep(), 60)
    await closing


async def test_a_restart_rescues_at_once_what_the_dead_process_held__PL_12(path: Path) -> None:
    first = await sqlite_rig(path)
    job = (await first.submit(calls(4))).job
    worker = await first.worker()
    leases = await worker.lease(3)
    await worker.settle(leases[0], cost=1)
    await _die(first)
    second = await sqlite_rig(path)
    second.check()
    assert second.states(job) == {"t0": "completed", "t1": "suspect", "t2": "suspect", "t3": "ready"}
    next_worker = await second.worker()
    assert list(next_worker.lanes) == ["api"]
    assert len(await second.ledger.lease_suspects(next_worker.session)) == 1
    await _die(second)


async def test_paused_cancelled_and_waiting_work_is_as_it_was_after_a_restart(path: Path) -> None:
    first = await sqlite_rig(path)
    paused = (await first.submit(calls(2))).job
    await first.ledger.pause(paused)
    waiting = (await first.submit(calls(1))).job
    worker = await first.worker()
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=60)
    cancelled = (await first.submit(calls(6_000))).job
    await first.ledger.cancel(cancelled)
    assert first.job(cancelled)["queued"] == 1_000
    await _die(first)

    second = await sqlite_rig(path, first.clock)
    worker = await second.worker()
    assert await worker.lease() == []
    while (await second.ledger.sweep()).more:
        pass
    assert second.job(cancelled)["state"] == "cancelled"
    second.pass_time(61)
    await second.ledger.sweep()  # the first worker is late by now
    worker = await second.worker()
    await worker.drain()
    assert second.job(waiting)["state"] == "completed"
    assert second.states(paused) == {"t0": "ready", "t1": "ready"}
    await _die(second)


async def test_what_was_written_is_read_by_the_loop_at_once_and_through_a_thread_alike(rig: Rig) -> None:
    assert isinstance(rig.ledger, SqliteLedger)
    database, asked = rig.ledger.database, "SELECT public_id FROM jobs WHERE public_id = :job"
    for _ in range(3):  # each look sees the newest commit
        job = {"job": str((await rig.submit(calls(1))).job)}
        assert await database.fetch_fresh(asked, job) == await database.fetch(asked, job) == [{"public_id": job["job"]}]
    with pytest.raises(StoreError, match="no such table"):
        await database.fetch_fresh("SELECT 1 FROM no_such_thing")
    with pytest.raises(StoreError, match="readonly"):
        await database.fetch_fresh("DELETE FROM jobs")


class Held:
    """Holds the writer in the middle of a submission, and counts commits."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.commits = 0

    def at(self, point: str) -> None:
        if point == "job-written":
            self.reached.set()
            self.go_on.wait(60)
        self.commits += point == "before-commit"


async def test_what_arrives_while_others_run_shares_their_commit(path: Path) -> None:
    held = Held()
    rig = await sqlite_rig(path, faults=held)
    before = held.commits
    submitting = asyncio.create_task(rig.submit(calls(1)))
    await asyncio.to_thread(held.reached.wait, 30)
    others = [asyncio.create_task(rig.ledger.sweep()) for _ in range(3)]
    await asyncio.sleep(0)
    held.go_on.set()
    await asyncio.gather(submitting, *others)
    assert held.commits == before + 1
    await _close(rig)


async def _idle(path: Path, held: Held) -> tuple[Rig, Worker]:
    """A worker whose lane has had work, and has none now."""
    held.go_on.set()
    rig = await sqlite_rig(path, faults=held)
    await rig.submit(calls(1))
    worker = await rig.worker()
    await worker.drain()
    await rig.ledger.work_arrived(30)  # that job's
    return rig, worker


async def test_a_waiting_worker_can_lease_work_in_the_commit_that_adds_it(path: Path) -> None:
    held = Held()
    rig, worker = await _idle(path, held)
    held.reached.clear()
    held.go_on.clear()
    before = held.commits
    waiting = asyncio.create_task(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    submitting = asyncio.create_task(rig.submit(calls(1, prefix="u")))
    await waiting  # notified, although it is not written yet
    leasing = asyncio.create_task(worker.cycle(most=1))
    await asyncio.to_thread(held.reached.wait, 30)
    held.go_on.set()
    assert [lease.key for lease in (await leasing).leases] == ["u0"]
    assert (await submitting).created
    assert held.commits == before + 1
    await _close(rig)


async def test_a_commit_waits_a_moment_for_the_command_that_will_follow(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()
    rig, worker = await _idle(path, held)
    monkeypatch.setattr(connection, "FOLLOWED_WITHIN", 30)
    waiting = asyncio.create_task(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    before = held.commits
    submitting = asyncio.create_task(rig.submit(calls(1, prefix="u")))
    await waiting
    await asyncio.sleep(0.1)  # by now it is written
    assert held.commits == before
    assert [lease.key for lease in (await worker.cycle(most=1)).leases] == ["u0"]
    assert (await submitting).created
    assert held.commits == before + 1
    await _close(rig)


async def test_submissions_without_new_tasks_do_not_wake_workers(rig: Rig) -> None:
    await rig.submit(calls(1), key="same")
    for _ in range(2):  # the first repeat is still hoped for
        await rig.ledger.work_arrived(30)
        assert not (await rig.submit(calls(1), key="same")).created
    listening = asyncio.create_task(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    assert not (await rig.submit(calls(1), key="same")).created
    assert not listening.done()
    assert (await rig.submit(calls(1))).created
    async with asyncio.timeout(60):
        await listening


async def test_a_commit_does_not_wait_long_for_a_command_that_does_not_follow(rig: Rig) -> None:
    listening = asyncio.create_task(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert (await rig.submit(calls(1))).created
        await listening


async def test_a_full_disk_loses_nothing_acknowledged_and_recovers_by_itself__R10(rig: Rig) -> None:
    ledger = rig.ledger
    assert isinstance(ledger, SqliteLedger)
    job = (await rig.submit(calls(60))).job
    worker = await rig.worker()
    leases = await worker.lease(50)
    await _limit(ledger, more=40)
    acknowledged, refused = await _settle_until_full(worker, leases)
    assert acknowledged, "something must fit"
    assert refused, "the disk must get full"
    with pytest.raises(StoreFull, match="Free some space"):
        await ledger.submit(NewJob("rig", {"name": "big"}), calls(19_000))
    rig.check()
    done = {key for key, state in rig.states(job).items() if state == "completed"}
    assert done == {lease.key for lease in acknowledged}

    await _limit(ledger, more=100_000)
    await worker.cycle([_fat(lease) for lease in refused])
    assert len(await worker.drain()) == 10
    assert rig.job(job)["state"] == "completed"
    assert len(rig.rows(Seen)) == 50


async def _settle_until_full(worker: Worker, leases: list[Lease]) -> tuple[list[Lease], list[Lease]]:
    acknowledged, refused = [], []
    for lease in leases:
        try:
            assert not (await worker.cycle([_fat(lease)])).fenced
            acknowledged.append(lease)
        except StoreFull:
            refused.append(lease)
    return acknowledged, refused


def _fat(lease: Lease) -> Settlement:
    """Several pages of text."""
    found = [Seen(uid=lease.key, note="x" * 9_000), Thing(uid=lease.key, title="y" * 9_000)]
    return Settlement(lease, TaskState.COMPLETED, cost=1, records=found)


async def _limit(ledger: SqliteLedger, more: int) -> None:
    """Let the file grow by `more` pages and no further."""

    def command(db: sqlite3.Connection) -> None:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + more}")

    await ledger._writer.run(command)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 24 * HOUR, -24 * HOUR])
async def test_a_jump_of_the_wall_clock_rescues_nothing_and_frees_nothing__R11(
    path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescued, moved, due = await _rescued_after_a_jump(path, SystemClock(), jump, monkeypatch)
    assert (rescued, due) == (0, 0)
    assert moved < 60


async def test_a_clock_that_follows_the_wall_is_caught__R11(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""

    class WallClock(SystemClock):
        def now(self) -> datetime:
            return datetime.fromtimestamp(time.time(), UTC)

    rescued, moved, due = await _rescued_after_a_jump(path, WallClock(), HOUR, monkeypatch)
    assert (rescued, due) == (2, 1)
    assert moved > 60


async def _rescued_after_a_jump(
    path: Path, clock: SystemClock, jump: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, float, int]:
    """(tasks rescued too early, seconds that the ledger's clock moved, waiting tasks leased too early)"""
    ledger = await open_sqlite(path, clock)
    rig = Rig(ledger, SqliteTables(path), None, print)
    await rig.submit(calls(2))
    worker = await rig.worker()
    first, _ = await worker.lease()
    await worker.settle(first, TaskState.WAITING, wait=600)
    before = await ledger.now()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    moved = abs((await ledger.now() - before).total_seconds())
    early = len((await worker.cycle(most=10)).leases)
    swept = await ledger.sweep()
    monkeypatch.undo()
    await ledger.close()
    rig.tables.close()
    return swept.rescued, moved, early


async def _die(rig: Rig) -> None:
    """Close without `end`, as a killed process leaves it."""
    await rig.ledger.close()
    rig.tables.close()


async def _close(rig: Rig) -> None:
    rig.check()
    await rig.ledger.close()
    rig.tables.close()
