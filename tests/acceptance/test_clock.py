"""A worker whose wall clock is wrong by an hour or a day (R11): nothing is claimed twice, nothing rescued early."""

from pathlib import Path

import pytest

from forager.core.states import TaskState
from forager.sandbox import Fault, SerperConfig, SerperSandbox
from tests.support.chaos import DENSITY, gone, judge, requests, submit, tables_of
from tests.support.engine_process import Options, start, started

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

HOUR, DAY = 3_600.0, 86_400.0
OFFSETS = [HOUR, -HOUR, DAY, -DAY]
TASKS = 300
# Retries must also come when they are due by the store's clock, neither at once nor in a day.
CONFIG = SerperConfig(density=DENSITY, rate_limit=None, latency_ms=60, faults={Fault.HTTP500: 0.1})


@pytest.mark.parametrize("offset", OFFSETS)
async def test_two_workers_with_different_clocks_claim_nothing_twice__R11(postgres_url: str, offset: float) -> None:
    async with SerperSandbox(CONFIG) as sandbox:
        right = Options(postgres_url, sandbox.url, lease=5.0, concurrency=16)
        wrong = Options(postgres_url, sandbox.url, lease=5.0, concurrency=16, wall_offset=offset)
        await submit(right, TASKS)
        with started(wrong) as first:
            assert await requests(sandbox, 30, first)
            with started(right) as second:
                assert await gone(first, 60) == 0
                assert await gone(second, 60) == 0
        tables = tables_of(postgres_url)
        rescued = tables.read(
            f"SELECT id FROM {tables.tasks} t WHERE crashes > 0 OR together IS NOT NULL OR guessed > 0"
        )
        tables.close()
        assert rescued == [], "nobody died, so nobody was rescued"
        verdict = judge(postgres_url, sandbox, TASKS)
        assert verdict.is_clean, verdict
        assert verdict.repeats == 0, "every page was requested once, except those that failed upstream"
        assert set(verdict.states) <= {int(TaskState.COMPLETED)}


@pytest.mark.parametrize("offset", OFFSETS)
async def test_a_restart_under_another_clock_continues_at_once__R11(tmp_path: Path, offset: float) -> None:
    async with SerperSandbox(SerperConfig(density=DENSITY, rate_limit=None, latency_ms=60)) as sandbox:
        right = Options(str(tmp_path), sandbox.url, lease=5.0, concurrency=16)
        wrong = Options(str(tmp_path), sandbox.url, lease=5.0, concurrency=16, wall_offset=offset)
        await submit(right, TASKS)
        with started(wrong) as first:
            assert await requests(sandbox, 40, first)
        assert await gone(start(right), 60) == 0
        verdict = judge(str(tmp_path), sandbox, TASKS)
        assert verdict.is_clean, verdict
        assert verdict.states == {int(TaskState.COMPLETED): TASKS}
        assert verdict.repeats <= 16, "only what was in flight at the kill was sent again"
        assert verdict.attempts == {1}
