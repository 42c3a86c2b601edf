"""Big pages in processes of their own: a slow or deadly one fails alone, and the next page finds a process again."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import ParseFailed
from forager.core.http import Request, Response
from forager.core.offload import BIG_PAGE, SMALL_PAGE, Offload, parse
from forager.core.reasons import Reason
from forager.offload import pool as pool_module
from forager.offload.pool import ProcessPool
from tests.support import heavy
from tests.support.clock import FakeClock
from tests.support.engine import until

MB = 1024 * 1024


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool(2, SystemClock())
    yield made
    await made.close()


async def test_a_function_runs_in_another_process_which_is_used_again(pool: ProcessPool) -> None:
    assert await pool(heavy.length, b"x" * 5 * MB) == 5 * MB
    first = await pool(heavy.process)
    assert first != os.getpid()
    assert await pool(heavy.process) == first


async def test_two_pages_are_read_at_the_same_time_and_a_third_waits(pool: ProcessPool) -> None:
    await asyncio.gather(pool(heavy.sleep, 0.2), pool(heavy.sleep, 0.2))
    found = await asyncio.gather(*(pool(heavy.process) for _ in range(2)), *(pool(heavy.sleep, 0.05) for _ in range(4)))
    assert len({pid for pid in found if isinstance(pid, int)}) <= 2
    assert found[2:] == ["done"] * 4


async def test_a_page_that_takes_too_long_is_late_and_the_next_is_read(pool: ProcessPool) -> None:
    began = time.monotonic()
    with pytest.raises(ParseFailed, match="more than 1 s") as caught:
        await pool(heavy.spin, 60.0, limit=1.0)
    assert caught.value.reason == Reason.PARSE_LATE
    assert time.monotonic() - began < 30
    assert await pool(heavy.length, b"xyz") == 3


async def test_the_limit_counts_cpu_time_of_this_page_only(pool: ProcessPool) -> None:
    for _ in range(4):
        assert await pool(heavy.spin, 0.9, limit=2.0) == "done"
    assert await pool(heavy.sleep, 2.2, limit=2.0) == "done"


async def test_a_page_that_hangs_without_using_the_processor_is_given_up_too(pool: ProcessPool) -> None:
    await pool(heavy.process)
    with pytest.raises(ParseFailed) as caught:
        await pool(heavy.sleep, 60.0, limit=0.05)
    assert caught.value.reason == Reason.PARSE_LATE
    assert await pool(heavy.length, b"xyz") == 3


@pytest.mark.parametrize(
    ("work", "argument", "told"),
    [(heavy.crash, signal.SIGSEGV, "signal 11"), (heavy.crash, signal.SIGKILL, "signal 9"), (heavy.leave, 3, "code 3")],
)
async def test_a_page_that_kills_its_process_fails_alone(
    pool: ProcessPool, work: heavy.Deadly, argument: int, told: str
) -> None:
    innocent = asyncio.create_task(pool(heavy.sleep, 0.5))
    with pytest.raises(ParseFailed, match=told) as caught:
        await pool(work, argument)
    assert caught.value.reason == Reason.PARSE_CRASHED
    assert await innocent == "done"
    assert [await pool(heavy.length, b"x" * n) for n in range(5)] == list(range(5))


async def test_a_page_that_takes_too_much_memory_fails_alone() -> None:
    pool = ProcessPool(1, SystemClock(), memory=512 * MB)
    with pytest.raises(ParseFailed, match="512 MB") as caught:
        await pool(heavy.hog, 1024 * MB)
    assert caught.value.reason == Reason.PARSE_CRASHED
    assert await pool(heavy.hog, MB) == MB
    await pool.close()


async def test_an_error_of_the_function_is_raised_here(pool: ProcessPool) -> None:
    with pytest.raises(ValueError, match="bad page"):
        await pool(heavy.fail, "bad page")
    with pytest.raises(RuntimeError, match="Odd: ab"):
        await pool(heavy.fail, "odd")
    assert await pool(heavy.chatter, "hello") == "hello"


async def test_a_task_that_is_given_up_takes_its_process_along(pool: ProcessPool) -> None:
    started = await pool(heavy.process)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pool(heavy.sleep, 60.0, limit=60.0)
    assert await pool(heavy.process) != started
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)


async def test_a_process_that_died_while_idle_harms_no_page(pool: ProcessPool) -> None:
    idle = await pool(heavy.process)
    os.kill(idle, signal.SIGKILL)
    await until(lambda: not pool._idle[0].is_alive)
    assert await pool(heavy.process) != idle


async def test_idle_processes_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE", 0.05)
    pool = ProcessPool(1, SystemClock())
    idle = await pool(heavy.process)
    await until(lambda: not pool._idle)
    with pytest.raises(ProcessLookupError):
        await until(lambda: os.kill(idle, 0))
    await pool.close()


async def test_the_processes_are_given_no_secrets(pool: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORAGER_SECRET_KEY", "canary")
    monkeypatch.setenv("SERPER_API_KEY", "canary")
    assert "canary" not in str(await pool(heavy.environment))


async def test_what_cannot_be_sent_runs_in_a_thread(pool: ProcessPool) -> None:
    assert await pool(lambda page: (len(page), os.getpid()), b"xy") == (2, os.getpid())


# ── where a page belongs ──


class Offloading:
    """What a step is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def __call__(self, request: Request) -> Response:
        raise AssertionError("nothing is fetched")

    @property
    def offload(self) -> Offload:
        async def note(work: heavy.Deadly, /, *args: bytes, limit: float = 5.0) -> object:
            self.sizes.append(len(args[0]))
            return work(*args)

        return note  # type: ignore[return-value]


@pytest.mark.parametrize(("size", "elsewhere"), [(SMALL_PAGE, 0), (BIG_PAGE, 0), (BIG_PAGE + 1, 1)])
async def test_only_a_big_page_goes_to_another_process(size: int, elsewhere: int) -> None:
    fetch = Offloading()
    assert await parse(fetch, size, heavy.length, b"x" * size) == size
    assert len(fetch.sizes) == elsewhere


async def test_a_plain_fetch_reads_big_pages_in_a_thread() -> None:
    async def fetch(request: Request) -> Response:
        raise AssertionError("nothing is fetched")

    assert await parse(fetch, BIG_PAGE + 1, heavy.process, b"") == os.getpid()


async def test_idle_processes_stay_while_the_clock_stands() -> None:
    pool = ProcessPool(1, FakeClock())
    assert await pool(heavy.length, b"x") == 1
    await pool.close()
