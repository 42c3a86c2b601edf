"""What holds for every runner: all ends, once; a killed worker costs nothing but its lease; pause and cancel hold."""

import asyncio

import pytest

from tests.support.runner_rig import PATIENCE, RunnerRig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def test_every_task_of_a_job_ends_once(runner: RunnerRig) -> None:
    runner.keep_working()
    job = await runner.submit()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)
    assert set(await runner.started(job)) == {1}


async def test_what_a_killed_worker_held_is_done_by_the_next_one(runner: RunnerRig) -> None:
    runner.keep_working()
    job = await runner.submit()
    await runner.until(job, completed=8)
    assert runner.kill_workers()
    left = await runner.report(job)
    assert left.completed < left.total
    runner.keep_working()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)


async def test_two_workers_share_the_work(runner: RunnerRig) -> None:
    runner.kill_workers()
    for _ in range(2):
        runner.start_worker(*runner.one_at_a_time)
    jobs, seen = [await runner.submit()], set[int]()
    async with asyncio.timeout(PATIENCE):
        while len(seen) < 2:
            if (await runner.report(jobs[-1])).state == "completed":
                jobs.append(await runner.submit())
            seen |= await runner.busy_workers()
            await asyncio.sleep(0.02)
    for job in jobs:
        done = await runner.until(job)
        assert (done.failed, done.completed) == (0, done.total)
        assert set(await runner.started(job)) == {1}


async def test_a_paused_job_rests_and_a_cancelled_one_ends(runner: RunnerRig) -> None:
    runner.keep_working()
    paused, cancelled = await runner.submit(), await runner.submit()
    await runner.until(paused, completed=3)
    await runner.app.ledger.pause(paused)
    await runner.app.ledger.cancel(cancelled)
    await runner.until(cancelled, state="cancelled")
    async with asyncio.timeout(60):
        while (await runner.report(paused)).running:
            await asyncio.sleep(0.05)
    before = await runner.report(paused)
    await asyncio.sleep(0.5)
    after = await runner.report(paused)
    assert (after.state, after.completed) == ("paused", before.completed)
    await runner.app.ledger.resume(paused)
    done = await runner.until(paused)
    assert (done.failed, done.completed) == (0, done.total)
