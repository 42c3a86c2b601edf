"""Guarantees of every runner: each task ends once; a killed worker costs only its lease; pause and cancel hold."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from forager.core.errors import Conflict
from tests.support.runner_rig import PATIENCE, RunnerRig

AT_ONCE = 6
"""Jobs for two workers: one job alone may be done before the second worker has come."""

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def test_every_task_of_a_job_ends_once(runner: RunnerRig) -> None:
    runner.keep_working()
    job = await runner.submit()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)
    assert set(await runner.started(job)) == {1}


async def interrupted(runner: RunnerRig, act: Callable[[UUID], Awaitable[object]], *, completed: int) -> UUID:
    """Return a job that was in the middle of its work when `act` was done to it. One that was faster is tried again."""
    for _ in range(20):
        runner.keep_working()
        job = await runner.submit()
        await runner.until(job, completed=completed)
        with contextlib.suppress(Conflict):  # it has ended
            await act(job)
            if (await runner.report(job)).state != "completed":
                return job
    raise AssertionError("every job was faster than the test")


async def test_what_a_killed_worker_held_is_done_by_the_next_one(runner: RunnerRig) -> None:
    async def kill(_: UUID) -> None:
        assert runner.kill_workers()

    job = await interrupted(runner, kill, completed=8)
    runner.keep_working()
    done = await runner.until(job)
    assert (done.failed, done.completed) == (0, done.total)


async def test_two_workers_share_the_work(runner: RunnerRig) -> None:
    runner.kill_workers()
    for _ in range(2):
        runner.start_worker(*runner.one_at_a_time)
    jobs, seen = [await runner.submit() for _ in range(AT_ONCE)], set[int]()
    async with asyncio.timeout(PATIENCE):
        while len(seen) < 2:
            if (await runner.report(jobs[-AT_ONCE])).state == "completed":
                jobs.append(await runner.submit())
            seen |= await runner.busy_workers()
            await asyncio.sleep(0.02)
    for job in jobs:
        done = await runner.until(job)
        assert (done.failed, done.completed) == (0, done.total)
        assert set(await runner.started(job)) == {1}


async def test_a_paused_job_rests_and_a_cancelled_one_ends(runner: RunnerRig) -> None:
    async def pause(job: UUID) -> None:
        """Until nothing runs any more; a job of which everything was in flight completes meanwhile."""
        await runner.app.ledger.pause(job)
        async with asyncio.timeout(PATIENCE):
            while (await runner.report(job)).running:
                await asyncio.sleep(0.05)

    paused = await interrupted(runner, pause, completed=3)
    cancelled = await interrupted(runner, runner.app.ledger.cancel, completed=3)
    await runner.until(cancelled, state="cancelled")
    before = await runner.report(paused)
    await asyncio.sleep(0.5)
    after = await runner.report(paused)
    assert (after.state, after.completed) == ("paused", before.completed)
    await runner.app.ledger.resume(paused)
    done = await runner.until(paused)
    assert (done.failed, done.completed) == (0, done.total)
