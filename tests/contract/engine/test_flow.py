"""Continuous flow: lanes at their limit, jobs that share them, limits as the upstream sees them."""

import asyncio
import itertools
import time
from dataclasses import replace
from typing import Any

import pytest

from forager.core.pipeline import Lane
from forager.core.task import Plan
from forager.engine.work import worker as work_worker
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import DEAD_AFTER, QUICK, Act, acts, many
from tests.support.engine import most_in_a_second, most_in_flight, serper, silence, until
from tests.support.sites import Look, looks, plans
from tests.support.time_limits import assert_soon

FULL = SerperConfig(density=FULL_DENSITY, rate_limit=None)


async def test_a_job_of_ten_behind_one_of_100000_sends_its_first_query_within_a_second__PL_7(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, latency_ms=50)) as sandbox:
        rig = await open_rig(serper(sandbox.url, rate=200, concurrency=50))
        big = await rig.submit_places(10_000, pages=10, keyword="bars")
        assert rig.job(big)["total"] == 100_000
        worker = rig.worker(sandbox.url)
        async with rig.working(worker):
            await sandbox.log.arrived(50)
            keywords = (f"cafes {n}" for n in itertools.count())

            async def first_query() -> float:
                keyword = next(keywords)
                small = await rig.submit_places(10, pages=1, keyword=keyword)
                submitted = time.monotonic()
                await until(lambda: any(e.keyword == keyword for e in sandbox.log))
                first = next(e.at for e in sandbox.log if e.keyword == keyword)
                await until(lambda: rig.job(small)["state"] == "completed")
                return first - submitted

            await assert_soon(first_query, 1.0)


@pytest.mark.one_store  # the engine sends, the store only hands out
async def test_requests_in_flight_stay_at_the_limit_while_work_remains__PL_7(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, latency_ms=1_000)) as sandbox:
        rig = await open_rig(serper(sandbox.url, concurrency=40))
        job = await rig.submit_places(300, pages=1, batch_size=10)
        async with rig.working(rig.worker(sandbox.url)):
            await sandbox.log.ended(200)
        assert most_in_flight(sandbox) == 40
        entries = [e for e in sandbox.log if e.done is not None][40:200]
        busy = sum(e.done - e.at for e in entries if e.done is not None)
        average = busy / (max(e.at for e in entries) - min(e.at for e in entries))
        assert average >= 40 * 0.6, f"on average {average:.1f} of 40 in flight"
        assert rig.job(job)["total"] == 300


async def test_a_jobs_own_concurrency_holds_at_the_upstream__PL_1(open_rig: OpenRig) -> None:
    async with SerperSandbox(replace(FULL, latency_ms=20)) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        await rig.submit_places(60, pages=1, concurrency=3)
        await rig.run(sandbox.url)
        assert most_in_flight(sandbox) == 3
        assert len(sandbox.log) == 60


@pytest.mark.one_store  # the engine sends, the store only hands out
async def test_no_window_of_a_second_has_more_starts_than_the_rate__PL_8(open_rig: OpenRig) -> None:
    async with SerperSandbox(FULL) as sandbox:
        rig = await open_rig(serper(sandbox.url, rate=40, burst=10))
        await rig.submit_places(100, pages=1)
        await rig.run(sandbox.url)
        assert len(sandbox.log) == len(rig.starts) == 100
        assert 20 <= most_in_a_second(rig.starts) <= 40
        assert sandbox.stats()["max_starts_per_second_undisturbed"] <= 40


async def test_a_new_owner_of_a_lane_does_not_break_the_window_of_the_last__PL_8(open_rig: OpenRig) -> None:
    async with SerperSandbox(FULL) as sandbox:
        rig = await open_rig(serper(sandbox.url, rate=40, burst=10))
        job = await rig.submit_places(120, pages=1)
        for _ in range(2):
            seen = len(sandbox.log)
            async with rig.working(rig.worker(sandbox.url)):
                await sandbox.log.arrived(seen + 30)
        await rig.run(sandbox.url)
        assert most_in_a_second(rig.starts) <= 40
        assert rig.job(job)["state"] == "completed"


@pytest.mark.one_store  # the engine sends, the store only hands out
async def test_an_upstream_that_never_answers_slows_no_other_lane(open_rig: OpenRig) -> None:
    """The dead lane could fill every place of the process: it must leave some to the others."""
    async with silence() as dead, SerperSandbox(SerperConfig(rate_limit=None)) as sandbox:
        lanes = [Lane("dead", rate=None, retry=QUICK), *(Lane(f"live{n}", rate=None, retry=QUICK) for n in range(4))]
        rig = await open_rig(acts(*lanes, timeout=600.0))
        await rig.submit(many(500, prefix="d", where="dead", url=f"{dead}/"))
        worker = rig.worker(dead, sandbox.url, capacity=40)
        async with rig.working(worker):
            await until(lambda: worker.in_flight >= 30)
            plans = [Plan(Act(name=f"l{n}", where=f"live{n % 4}", url=f"{sandbox.url}/x")) for n in range(400)]
            began = time.monotonic()
            live = await rig.submit(plans)
            await until(lambda: rig.job(live)["state"] == "completed")
            assert time.monotonic() - began < DEAD_AFTER / 2, "before the first dead request has timed out"
            assert worker.in_flight >= 30


async def test_work_that_arrives_is_taken_up_at_once(open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waited for its next look round would wait for longer than this test may take."""
    monkeypatch.setattr(work_worker, "POLL", 600.0)
    async with SerperSandbox(FULL) as sandbox:
        rig = await open_rig(serper(sandbox.url))
        async with rig.working(rig.worker(sandbox.url)):
            for n in range(3):
                job = await rig.submit_places(1, pages=1, keyword=f"bars {n}")
                await until(lambda: rig.job(job)["state"] == "completed")  # noqa: B023
                await asyncio.sleep(0)


async def test_one_heartbeat_keeps_every_lane_and_every_task_alive_trap_7(open_rig: OpenRig) -> None:
    """Steps take longer than the lease; the process sends three heartbeats per lease, whatever it holds."""
    lease, lanes = 3.0, [Lane(f"lane{n}", rate=None, retry=QUICK) for n in range(20)]
    rig = await open_rig(acts(*lanes, timeout=60), lease=lease)
    plans = [Plan(Act(name=f"t{n}", where=f"lane{n % 20}", seconds=lease * 1.3)) for n in range(200)]
    job, beat, beats = await rig.submit(plans), rig.ledger.beat, []

    async def counted(*arguments: Any) -> Any:
        beats.append(time.monotonic())
        return await beat(*arguments)

    rig.ledger.beat = counted
    began = time.monotonic()
    async with rig.working(rig.worker()):
        await until(lambda: rig.job(job)["state"] == "completed")
    assert 3 <= len(beats) <= (time.monotonic() - began) / (lease / 3) + 1
    assert {task["attempt"] for task in rig.tasks(job).values()} == {1}
    assert {task["claim"] for task in rig.tasks(job).values()} != {None}


async def test_a_listener_of_a_pipeline_gets_the_attempts_of_that_pipeline_only(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), looks())
    await rig.submit(many(3))
    await rig.submit(plans(["http://nowhere.invalid/a"]), "looks")
    worker = rig.worker()
    every: list[str] = []
    of_acts: list[str] = []
    of_looks: list[str] = []
    worker.when_settled(lambda group: every.extend(s.lease.kind for s in group))
    worker.when_settled(lambda group: of_acts.extend(s.lease.kind for s in group), pipeline="acts")
    worker.when_settled(lambda group: of_looks.extend(s.lease.kind for s in group), pipeline="looks")
    async with rig.working(worker):
        await until(lambda: len(of_acts) == 3 and of_looks)
    assert set(of_acts) == {Act.kind}
    assert set(of_looks) == {Look.kind}
    assert sorted(every) == sorted(of_acts + of_looks)
