"""A worker dies or is stopped (R4, R7): work continues by itself, and no innocent task pays for it."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from forager.core.states import TaskState
from forager.sandbox import SerperConfig, SerperSandbox
from tests.support.chaos import DENSITY, gone, in_state, judge, requests, submit, tables_of
from tests.support.engine import until
from tests.support.engine_process import ROOT, Options, start, started
from tests.support.postgres import Postgres
from tests.support.time_limits import assert_soon

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CONFIG = SerperConfig(density=DENSITY, rate_limit=None, latency_ms=100, latency_sigma=0.3)
COMPLETED = int(TaskState.COMPLETED)


@asynccontextmanager
async def forager_worker(folder: Path, url: str, **settings: object) -> AsyncIterator[subprocess.Popen[bytes]]:
    """The real command, under its supervisor."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FORAGER_", "SERPER_"))}
    environment |= {
        "FORAGER_HOME": str(folder),
        "FORAGER_SERPER_BASE_URL": url,
        "FORAGER_SERPER_API_KEY": "sandbox-key",
        "FORAGER_EGRESS_ALLOW": url.removeprefix("http://"),
        **{f"FORAGER_{name.upper()}": str(value) for name, value in settings.items()},
    }
    command = [sys.executable, "-m", "forager", "worker", "--until-idle"]
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        yield process
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            child.kill()
        process.kill()
        process.wait()


async def ended(process: subprocess.Popen[bytes], patience: float) -> int:
    await until(lambda: process.poll() is not None, patience)
    assert process.returncode is not None
    return process.returncode


async def test_a_killed_worker_is_back_at_work_by_itself__R4(tmp_path: Path) -> None:
    """The embedded store: the supervisor starts another process, and the lock shows that the first is dead."""
    async with SerperSandbox(CONFIG) as sandbox:
        await submit(Options(str(tmp_path), sandbox.url), 600)
        async with forager_worker(tmp_path, sandbox.url, lease_seconds=30, serper_concurrency=32) as process:
            await asyncio.wait_for(sandbox.log.arrived(50), 60)
            (child,) = psutil.Process(process.pid).children()
            child.kill()
            killed, seen = time.monotonic(), sandbox.log.total
            await asyncio.wait_for(sandbox.log.arrived(seen + 40), 60)
            recovered = time.monotonic() - killed
            sys.stdout.write(f"recovered after {recovered:.2f} s\n")
            assert recovered <= 35.0
            assert await ended(process, 120) == 0
        verdict = judge(str(tmp_path), sandbox, 600)
        assert verdict.is_clean, verdict
        assert verdict.states == {COMPLETED: 600}
        assert verdict.attempts == {1}


async def test_another_worker_takes_over_within_the_lease_and_five_seconds__R4(postgres: Postgres) -> None:
    lease = 2.0

    async def attempt() -> float:
        url = postgres.create_database()
        try:
            return await taken_over_after(url, lease)
        finally:
            postgres.drop_database(url)

    await assert_soon(attempt, lease + 5.0)


async def taken_over_after(url: str, lease: float) -> float:
    """Kill a worker. Returns the seconds until another has done what it held; nothing may be lost or burned."""
    async with SerperSandbox(CONFIG) as sandbox:
        options = Options(url, sandbox.url, lease=lease)
        await submit(options, 600)
        with started(options) as first:
            await requests(sandbox, 50, first)
            with started(options) as second:
                first.kill()
                await gone(first, 60)
                killed, seen = time.monotonic(), sandbox.log.total
                held = in_state(url, TaskState.RUNNING)
                assert held > 0
                await asyncio.wait_for(sandbox.log.arrived(seen + held), 60)
                recovered = time.monotonic() - killed
                sys.stdout.write(f"recovered after {recovered:.2f} s with a lease of {lease:g} s\n")
                assert recovered >= lease * 0.5
                assert await gone(second, 120) == 0
        verdict = judge(url, sandbox, 600)
        assert verdict.is_clean, verdict
        assert verdict.attempts == {1}
        return recovered


async def stop_under_load(options: Options, sandbox: SerperSandbox, *, times: int, tasks: int) -> None:
    await submit(options, tasks)
    longest = 0.0
    for _ in range(times):
        process = start(options)
        assert await requests(sandbox, tasks // (times * 2), process)
        assert in_state(options.store, TaskState.RUNNING) > 0
        began = time.monotonic()
        process.terminate()
        assert await gone(process, options.grace + 15) == 0
        longest = max(longest, time.monotonic() - began)
        tables = tables_of(options.store)
        assert tables.read(f"SELECT id FROM {tables.tasks} t WHERE state IN (3, 8)") == [], "nothing is left in flight"
        assert tables.read("SELECT id FROM sessions") == []
        tables.close()
    sys.stdout.write(f"{times} stops, the longest took {longest:.2f} s\n")
    assert longest <= options.grace + 5
    assert await gone(start(options), 120) == 0
    verdict = judge(options.store, sandbox, tasks)
    assert verdict.is_clean, verdict
    assert verdict.states == {COMPLETED: tasks}
    assert verdict.attempts == {1}, "a stop burns no attempt"
    assert verdict.repeats == 0, "what was in flight was let end"


async def test_sigterm_under_load_loses_and_burns_nothing__R7(tmp_path: Path) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        await stop_under_load(Options(str(tmp_path), sandbox.url, grace=10.0), sandbox, times=5, tasks=800)


async def test_sigterm_under_load_loses_and_burns_nothing_on_postgres__R7(postgres_url: str) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        await stop_under_load(Options(postgres_url, sandbox.url, grace=10.0), sandbox, times=5, tasks=800)


@pytest.mark.chaos
async def test_fifty_sigterms_under_load_lose_and_burn_nothing__R7(tmp_path: Path) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        await stop_under_load(Options(str(tmp_path), sandbox.url, grace=10.0), sandbox, times=50, tasks=8_000)


@pytest.mark.chaos
async def test_fifty_sigterms_under_load_lose_and_burn_nothing_on_postgres__R7(postgres_url: str) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        await stop_under_load(Options(postgres_url, sandbox.url, grace=10.0), sandbox, times=50, tasks=8_000)


async def test_the_worker_command_drains_on_sigterm_within_its_grace__R7(tmp_path: Path) -> None:
    """Answers take longer than the grace: what is in flight goes back to the queue, unburned."""
    slow = SerperConfig(density=DENSITY, rate_limit=None, latency_ms=300_000)
    async with SerperSandbox(slow) as sandbox:
        await submit(Options(str(tmp_path), sandbox.url), 40)
        async with forager_worker(tmp_path, sandbox.url, shutdown_seconds=1, serper_timeout_seconds=400) as process:
            await asyncio.wait_for(sandbox.log.arrived(10), 60)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await ended(process, 60) == 0
            assert time.monotonic() - began <= 1 + 30, "it does not wait for the answers"
        tables = tables_of(str(tmp_path))
        rows = tables.read("SELECT state, attempt FROM tasks")
        assert {row["state"] for row in rows} <= {0, 2}
        assert {row["attempt"] for row in rows} == {0}
        tables.close()
