"""Failures of the environment: a lost session, a full disk, a stop under load, two workers."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import StoreFull, StoreUnavailable
from forager.core.http import Fetch, Request, Response
from forager.core.ledger import Lease, LeaseBatch, Session, Settlement, Want
from forager.core.states import TaskState
from forager.engine.upkeep import sweep_interval
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from forager.sandbox.site import SandboxSite
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import RECORDS, acts, many
from tests.support.auditor import PostgresTables
from tests.support.auditor import audit as audit_tables
from tests.support.engine import EngineRig, open_sqlite, serper, until
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker
from tests.support.time_limits import assert_soon


class LateClock(SystemClock):
    """A monotonic clock that a test can advance: this process was stopped for that time without noticing."""

    late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


async def test_a_late_session_sends_nothing_more_by_its_own_clock_trap_7(open_rig: OpenRig) -> None:
    """The process is stopped for longer than its lease while it leases: what it was given is not sent."""
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY)) as sandbox:
        clock = LateClock()
        rig = await open_rig(serper(sandbox.url, rate=100), lease=30.0)
        job = await rig.submit_places(30, pages=1)
        worker = rig.worker(sandbox.url, clock=clock)
        beats = _hold(rig, "beat", lambda: clock.late > 0)  # before the lease, it only reports what it wants
        _stop_during_the_first_lease(rig, clock)
        async with rig.working(worker, sweep=False):
            await until(lambda: clock.late and worker.stats.started > 0 and worker.in_flight == 0)
            assert not worker.alive
            assert len(sandbox.log) == 0
            beats.set()
            await until(lambda: rig.job(job)["state"] == "completed")
        assert {t["attempt"] for t in rig.tasks(job).values()} == {1}, "what was not sent burned nothing"
        assert audit(sandbox.log).repeats == 0


async def test_a_lost_session_is_replaced_and_its_late_commits_are_refused__PL_6(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), lease=30.0)
    job = await rig.submit(many(20, seconds=0.3))
    worker = rig.worker(clock=(clock := LateClock()))
    async with rig.working(worker):
        await until(lambda: worker.in_flight == 20)
        await _end_sessions(rig)
        clock.late = 11.0  # the next heartbeat is due, and finds the session gone
        await until(lambda: rig.job(job)["state"] == "completed")
    assert rig.job(job)["completed"] == 20
    rig.check()


async def test_the_fence_alone_refuses_a_late_commit__PL_6(open_rig: OpenRig) -> None:
    """With the heartbeat deaf, nothing but the claim is between a lost task and a second effect."""
    rig = await open_rig(acts(), lease=30.0)
    job = await rig.submit(many(20, seconds=0.3))
    worker = rig.worker()
    async with rig.working(worker):
        await until(lambda: worker.in_flight == 20)
        await _end_sessions(rig)
        other = rig.worker(name="other")
        async with rig.working(other):
            await until(lambda: worker.stats.fenced == 20)
            await until(lambda: rig.job(job)["state"] == "completed")
    assert other.stats.ended["completed"] == 20
    assert rig.job(job)["completed"] == 20
    (told,) = rig.tables.read("SELECT count(*) AS n FROM changes WHERE kind = 'deed'")
    assert told["n"] == 20
    rig.check()


async def test_without_the_fence_the_auditor_finds_the_late_commits__PL_6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above: a build whose settle does not check the claim."""
    monkeypatch.setattr("forager.ledger.sqlite.settle._pass_the_fence", lambda _, all_: (list(all_), set(), []))
    rig = await open_sqlite(tmp_path, [acts()])
    await rig.submit(many(20, seconds=0.3))
    worker, other = rig.worker(), rig.worker(name="other")
    async with rig.working(worker):
        await until(lambda: worker.in_flight == 20)
        await _end_sessions(rig)
        async with rig.working(other):
            await until(lambda: worker.stats.ended["completed"] == 20 and other.stats.ended["completed"] >= 10)
    broken = audit_tables(rig.tables, RECORDS)
    assert any("completed is" in line for line in broken), broken
    await rig.close()


async def test_an_answer_that_the_store_lost_leaves_nothing_behind(open_rig: OpenRig) -> None:
    """A transaction is committed, its answer is lost: what it leased is given back, what it settled stays settled."""
    rig = await open_rig(acts())
    job = await rig.submit(many(300, seconds=0.01), batch_size=20)
    lost = _lose_every(rig, 5)
    await rig.run()
    assert lost() >= 3
    assert rig.job(job)["completed"] == 300
    assert {t["attempt"] for t in rig.tasks(job).values()} == {1}


async def test_a_stop_under_load_ends_within_its_grace_and_burns_nothing__R7(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None, latency_ms=300_000)) as sandbox:
        rig = await open_rig(serper(sandbox.url, timeout=400.0))
        job = await rig.submit_places(50, pages=2)
        worker = rig.worker(sandbox.url)
        task = asyncio.create_task(worker.run())
        await sandbox.log.arrived(50)
        async with asyncio.timeout(60):
            await worker.drain(0.2)
            await task
        row = rig.job(job)
        assert (row["queued"], row["running"], row["reserved"]) == (100, 0, 0)
        assert {t["attempt"] for t in rig.tasks(job).values()} == {0}
        assert rig.tables.read("SELECT id FROM sessions") == []
        assert row["spent"] == 50, "what was in flight may have been charged"


async def test_nothing_is_leased_until_what_the_store_lost_is_known_again(open_rig: OpenRig) -> None:
    """The search for lost leases also fails, once each time: leasing before it has succeeded would hide those leases
    for ever."""
    rig = await open_rig(acts())
    job = await rig.submit(many(100, seconds=0.01), batch_size=20)
    lost = _lose_every(rig, 3)
    real, failed = rig.ledger.held, 0

    async def held(session: Session) -> Sequence[Lease]:
        nonlocal failed
        if failed < lost():
            failed += 1
            raise StoreUnavailable("The second answer was also lost.")
        found: Sequence[Lease] = await real(session)
        return found

    rig.ledger.held = held
    await rig.run()
    assert failed >= 2
    assert rig.job(job)["completed"] == 100


async def test_what_a_turn_leased_while_the_stop_came_goes_back_unstarted__R7(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit(many(10, seconds=300))
    worker = rig.worker()
    real: Callable[..., Awaitable[LeaseBatch]] = rig.ledger.settle_and_lease

    async def answered(session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]) -> LeaseBatch:
        answer = await real(session, settlements, wants)
        if answer.leases:
            worker.stop()
        return answer

    rig.ledger.settle_and_lease = answered
    await asyncio.wait_for(worker.run(), 60)
    row = rig.job(job)
    assert worker.stats.started == 0
    assert (row["queued"], row["running"], row["spent"]) == (10, 0, 0)
    assert {t["attempt"] for t in rig.tasks(job).values()} == {0}


async def test_two_workers_share_the_lanes_and_do_everything_once__PL_6(open_rig: OpenRig) -> None:
    async with SerperSandbox(SerperConfig(rate_limit=None)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        job = await rig.submit_places(200, pages=2)
        one, two = rig.worker(sandbox.url, name="one"), rig.worker(sandbox.url, name="two")
        async with rig.working(one), rig.working(two):
            await until(lambda: rig.job(job)["state"] == "completed")
        assert audit(sandbox.log).repeats == 0
        assert rig.job(job)["completed"] + rig.job(job)["skipped"] == 400


async def test_a_full_disk_stops_leasing_and_recovers_by_itself__R10(tmp_path: Path) -> None:
    async with SerperSandbox(SerperConfig(density=FULL_DENSITY, rate_limit=None)) as sandbox:
        rig = await open_sqlite(tmp_path, [serper(sandbox.url)])
        job = await rig.submit_places(400, pages=2, concurrency=20)
        worker = rig.worker(sandbox.url)
        async with rig.working(worker):
            await until(lambda: rig.job(job)["completed"] >= 20)
            with contextlib.suppress(
                StoreFull
            ):  # the limit holds at once, also for whoever is committed together with it
                await rig.ledger.database.write(f"PRAGMA max_page_count = {_pages(tmp_path) + 2}")
            await until(lambda: worker.stats.trouble is not None)
            assert "full" in (worker.stats.trouble or "")
            known = rig.job(job)["completed"]
            await until(lambda: worker.in_flight == 0)
            sent = len(sandbox.log)
            turns = worker.stats.transactions
            with pytest.raises(TimeoutError):
                await until(lambda: len(sandbox.log) > sent or worker.stats.transactions > turns, patience=1.0)
            assert rig.job(job)["completed"] == known, "what was acknowledged is there, and nothing else"
            rig.check()
            await rig.ledger.database.write("PRAGMA max_page_count = 1073741823")
            await until(lambda: rig.job(job)["state"] == "completed")
            await until(lambda: worker.stats.trouble is None)
        told = audit(sandbox.log)
        assert told.repeats == 0, "no answer that was paid for was thrown away"
        assert rig.job(job)["completed"] == 800
        rig.check()
        await rig.close()


async def test_a_stop_while_the_store_is_away_still_ends(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    await rig.submit(many(20, seconds=0.1))
    worker = rig.worker()
    task = asyncio.create_task(worker.run())
    await until(lambda: worker.in_flight > 0)
    back = _break(rig)
    async with asyncio.timeout(60):
        await worker.drain(0.3)
        await task
    back()
    await _end_sessions(rig)
    await rig.run()
    rig.check()


async def test_a_dead_session_is_rescued_within_its_lease_and_five_seconds__R4(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), lease=1.0)

    async def attempt() -> float:
        job = await rig.submit(many(10))
        dead = await rig.ledger.begin("dead")
        lanes = await rig.ledger.take_lanes(dead, 10)
        batch = await rig.ledger.settle_and_lease(dead, [], [Want(lane.id, 10) for lane in lanes])
        assert len(batch.leases) == 10
        began = asyncio.get_running_loop().time()
        async with rig.working(rig.worker()):
            await until(lambda: rig.job(job)["state"] == "completed")
            took = asyncio.get_running_loop().time() - began
        late = await rig.ledger.settle_and_lease(dead, [Settlement(batch.leases[0], TaskState.FAILED)], [])
        assert list(late.fenced) == [batch.leases[0].task_id]
        assert {t["attempt"] for t in rig.tasks(job).values()} == {1}, "the innocent burn nothing"
        return took

    assert sweep_interval(1.0) <= 1.0
    await assert_soon(attempt, 6.0)


async def test_a_sweep_that_breaks_is_tried_again(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), lease=1.0)
    real, broke = rig.ledger.sweep, asyncio.Event()

    async def sweep() -> Any:
        if broke.is_set():
            return await real()
        broke.set()
        raise ZeroDivisionError("a bug in the rescuer")

    rig.ledger.sweep = sweep
    job = await rig.submit(many(5))
    dead = await rig.ledger.begin("dead")
    lanes = await rig.ledger.take_lanes(dead, 10)
    assert (await rig.ledger.settle_and_lease(dead, [], [Want(lane.id, 10) for lane in lanes])).leases
    async with rig.working(rig.worker()):
        await until(lambda: rig.job(job)["state"] == "completed")
    assert broke.is_set()


async def test_a_worker_that_gets_no_notifications_stops_instead_of_idling(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())

    async def deaf(_: float) -> None:
        raise ZeroDivisionError("a bug in the listener")

    rig.ledger.work_arrived = deaf
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(rig.worker().run(), 60)
    await _end_sessions(rig)


def _hold(rig: EngineRig, verb: str, when: Callable[[], bool] = lambda: True) -> asyncio.Event:
    """The store takes no call of this verb, while `when` holds, until the event is set."""
    free, real = asyncio.Event(), getattr(rig.ledger, verb)

    async def held(*arguments: Any) -> Any:
        if when():
            await free.wait()
        return await real(*arguments)

    setattr(rig.ledger, verb, held)
    return free


def _stop_during_the_first_lease(rig: EngineRig, clock: LateClock) -> None:
    real: Callable[..., Awaitable[LeaseBatch]] = rig.ledger.settle_and_lease

    async def answered(*arguments: Any) -> LeaseBatch:
        answer = await real(*arguments)
        if answer.leases and not clock.late:
            clock.late = 31.0
        return answer

    rig.ledger.settle_and_lease = answered


def _lose_every(rig: EngineRig, nth: int) -> Callable[[], int]:
    """Every `nth` answer that leased something is lost on its way."""
    real: Callable[..., Awaitable[LeaseBatch]] = rig.ledger.settle_and_lease
    count = lost = 0

    async def answered(session: Session, settlements: Sequence[Settlement], wants: Sequence[Want]) -> LeaseBatch:
        nonlocal count, lost
        answer = await real(session, settlements, wants)
        if answer.leases:
            count += 1
            if count % nth == 0:
                lost += 1
                raise StoreUnavailable("The answer was lost.")
        return answer

    rig.ledger.settle_and_lease = answered
    return lambda: lost


def _break(rig: EngineRig) -> Callable[[], None]:
    """The store is away until the returned function is called."""
    verbs = ("settle_and_lease", "beat", "end", "held", "take_lanes", "give_lanes")
    real: Mapping[str, Any] = {verb: getattr(rig.ledger, verb) for verb in verbs}

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The store is away.")

    for verb in verbs:
        setattr(rig.ledger, verb, away)

    def back() -> None:
        for verb, function in real.items():
            setattr(rig.ledger, verb, function)

    return back


async def _end_sessions(rig: EngineRig) -> None:
    """As if every lease had passed: the sweep finds the sessions dead."""
    await rig.ledger.database.write("UPDATE sessions SET lease_until = 0")
    await rig.ledger.sweep()


def _pages(folder: Path) -> int:
    with sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True) as db:
        return int(db.execute("PRAGMA page_count").fetchone()[0])


async def test_the_step_of_a_lone_suspect_begins_in_the_ledger_after_its_lane_and_before_it_runs__R14(
    open_rig: OpenRig,
) -> None:
    """A worker that takes over a lane holds its first request back: until then a kill proves nothing about the task."""
    async with SandboxSite() as site:
        rig = await open_rig(looks(), lease=4.0)
        job = await rig.submit(plans([site.url("/page/1", host="a.example")]), "looks")
        dead = await rig.ledger.begin("dead")
        (lane,) = await rig.ledger.take_lanes(dead, 10)
        assert (await rig.ledger.settle_and_lease(dead, [], [Want(lane.id, 1)])).leases
        async with asyncio.timeout(60):
            while (await rig.ledger.sweep()).rescued == 0:
                await asyncio.sleep(0.05)
        seen: list[tuple[str, bool, float]] = []
        taken: list[float] = []

        def look() -> tuple[bool, float]:
            claims = "queue" if isinstance(rig.tables, PostgresTables) else "tasks"
            running = f"SELECT 1 FROM {claims} q WHERE q.state = 3 AND q.claim = t.begun"
            (row,) = rig.tables.read(f"SELECT EXISTS ({running}) AS begun FROM tasks t")
            return bool(row["begun"]), time.monotonic()

        class Marking:
            """The real ledger; notes each mark as it was stored."""

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            async def take_lanes(self, *args: Any) -> Any:
                lanes = await real.take_lanes(*args)
                if lanes:
                    taken.append(time.monotonic())
                return lanes

            async def lease_suspects(self, *args: Any) -> Any:
                leases = await real.lease_suspects(*args)
                if leases:
                    seen.append(("leased", *look()))
                return leases

            async def mark_step(self, session: Session, lease: Lease, *, waits: bool) -> bool:
                marked: bool = await real.mark_step(session, lease, waits=waits)
                seen.append(("waits" if waits else "runs", *look()))
                return marked

        def noting(inner: Fetch) -> Fetch:
            async def fetch(request: Request) -> Response:
                seen.append(("sent", *look()))
                return await inner(request)

            return fetch

        real, rig.ledger = rig.ledger, Marking()
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, rate=40, per=4.0)), wrap=noting)
        async with asyncio.timeout(60):
            await worker.run(until_idle=True)
        assert rig.states(job) == {site.url("/page/1", host="a.example"): "completed"}
        assert [(what, begun) for what, begun, _ in seen] == [
            ("leased", False),
            ("runs", True),
            ("waits", True),
            ("sent", True),
            ("runs", True),
            ("waits", True),
        ]
        assert seen[1][2] - taken[0] >= 4.0, "the lane was to hold the first request back for a window"
