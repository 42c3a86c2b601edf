"""Pages in reading processes: a slow or deadly page fails alone, its neighbours are repeated, and the next page finds a
reader again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from forager.core.errors import ParseFailed, Short
from forager.core.http import Request, Response
from forager.core.reading import Offload, ReadError, parse
from forager.core.states import Reason
from forager.reading import pool as pool_module
from forager.reading.pool import ReaderPool
from forager.reading.server import ReaderServer
from tests.support import reading_functions
from tests.support.engine import until

pytestmark = pytest.mark.one_store
MB = 1024 * 1024


@pytest.fixture
async def pool() -> AsyncIterator[ReaderPool]:
    made = ReaderPool(2)
    yield made
    await made.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_function_runs_in_another_process_which_is_used_again(pool: ReaderPool) -> None:
    assert await pool(reading_functions.length, b"x" * 5 * MB) == 5 * MB
    first = await pool(reading_functions.process, b"")
    assert first != os.getpid()
    assert await pool(reading_functions.process, b"") in pool.readers


async def test_no_process_starts_before_the_first_page() -> None:
    pool = ReaderPool(2)
    assert pool.readers == []
    await pool.close()


async def test_many_pages_arrive_in_order_and_whole_whatever_their_size(pool: ReaderPool) -> None:
    sizes = [0, 1, 20_000, 700_000, 3, 300_000, 64_000, 2 * MB] * 8
    pages = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    assert await asyncio.gather(*(pool(reading_functions.digest, page) for page in pages)) == [
        reading_functions.digest(page) for page in pages
    ]
    assert len(pool.readers) == 2


async def test_a_page_over_its_cpu_time_is_late_and_the_next_is_read(pool: ReaderPool) -> None:
    began = time.monotonic()
    with pytest.raises(ParseFailed, match=r"more than 0\.3 s") as caught:
        await pool(reading_functions.spin, b"", 60.0, limit=0.3)
    assert caught.value.reason == Reason.PARSE_LATE
    assert time.monotonic() - began < 30
    assert await pool(reading_functions.length, b"xyz") == 3


async def test_a_page_that_uses_up_its_first_attempt_is_read_again_with_care() -> None:
    pool = ReaderPool(1)
    await pool(reading_functions.process, b"")
    page, neighbour = pool(reading_functions.careless, b"", limit=0.4), pool(reading_functions.length, b"abc")
    assert tuple(await asyncio.gather(page, neighbour)) == (True, 3)
    await pool.close()


async def test_the_limit_counts_cpu_time_of_this_page_only() -> None:
    pool = ReaderPool(1)
    for _ in range(4):
        assert await pool(reading_functions.spin, b"", 0.3, limit=0.6) == "done"
    assert await pool(reading_functions.sleep, b"", 0.8, limit=0.6) == "done"
    await pool.close()


async def test_a_page_that_hangs_without_using_the_processor_is_given_up(pool: ReaderPool) -> None:
    await asyncio.gather(*(pool(reading_functions.sleep, b"", 0.0) for _ in range(4)))
    with pytest.raises(ParseFailed) as caught:
        await pool(reading_functions.sleep, b"", 60.0, limit=0.05)
    assert caught.value.reason == Reason.PARSE_LATE
    assert await pool(reading_functions.length, b"xyz") == 3


@pytest.mark.parametrize(
    ("work", "argument", "told"),
    [
        (reading_functions.crash, signal.SIGSEGV, "signal 11"),
        (reading_functions.crash, signal.SIGKILL, "signal 9"),
        (reading_functions.leave, 3, "code 3"),
    ],
)
async def test_a_page_that_kills_its_reader_fails_alone_and_its_neighbours_are_repeated(
    work: reading_functions.Deadly, argument: int, told: str
) -> None:
    pool = ReaderPool(1)
    await pool(reading_functions.process, b"")
    before = [pool(reading_functions.length, b"x" * n) for n in range(3)]
    after = [pool(reading_functions.length, b"x" * n) for n in range(12)]
    done = await asyncio.gather(*before, pool(work, b"", int(argument)), *after, return_exceptions=True)
    assert done[:3] == [0, 1, 2]
    assert done[4:] == list(range(12))
    assert isinstance(done[3], ParseFailed)
    assert done[3].reason == Reason.PARSE_CRASHED
    assert told in done[3].message
    await pool.close()


async def test_a_reader_that_is_killed_from_outside_costs_no_page() -> None:
    pool = ReaderPool(1)
    victim = await pool(reading_functions.process, b"")
    pages = [asyncio.create_task(pool(reading_functions.sleep, b"", 0.2)) for _ in range(6)]
    await until(lambda: bool(pool._readers and pool._readers[0].pages))
    os.kill(victim, signal.SIGKILL)
    assert await asyncio.gather(*pages) == ["done"] * 6
    assert pool.readers
    assert victim not in pool.readers
    await pool.close()


async def test_readers_survive_the_end_of_the_process_that_forks_them(pool: ReaderPool) -> None:
    await pool(reading_functions.process, b"")
    server = pool_module._SERVER._process
    assert server is not None
    server.kill()
    server.wait()
    assert [await pool(reading_functions.length, b"x" * n) for n in range(5)] == list(range(5))


async def test_a_page_that_takes_too_much_memory_fails_alone() -> None:
    pool = ReaderPool(1, memory=256 * MB)
    hog = pool(reading_functions.hog, b"", 512 * MB)
    found = await asyncio.gather(hog, pool(reading_functions.hog, b"", MB), return_exceptions=True)
    assert isinstance(found[0], ParseFailed)
    assert found[0].reason == Reason.PARSE_CRASHED
    assert "256 MB" in found[0].message
    assert found[1] == MB
    await pool.close()


async def test_an_error_of_the_function_is_raised_here_with_its_name(pool: ReaderPool) -> None:
    with pytest.raises(ReadError, match="ValueError: bad page"):
        await pool(reading_functions.fail, b"", "bad page")
    with pytest.raises(ReadError, match="Odd: ab"):
        await pool(reading_functions.fail, b"", "odd")
    assert await pool(reading_functions.chatter, b"", "hello") == "hello"


async def test_an_answer_is_checked_against_the_declared_type_and_never_run(pool: ReaderPool) -> None:
    with pytest.raises(ReadError, match="not valid"):
        await pool(reading_functions.wrong_type, b"")
    assert await pool(reading_functions.half_a_character, b"") == ["a?"]


async def test_a_task_that_is_given_up_does_not_hold_up_the_next_one(pool: ReaderPool) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pool(reading_functions.sleep, b"", 0.5)
    assert await pool(reading_functions.length, b"xyz") == 3


async def test_a_reader_that_died_while_idle_harms_no_page(pool: ReaderPool) -> None:
    idle = await pool(reading_functions.process, b"")
    os.kill(idle, signal.SIGKILL)
    assert await pool(reading_functions.process, b"") != idle


async def test_idle_readers_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "IDLE", 0.05)
    pool = ReaderPool(1)
    idle = await pool(reading_functions.process, b"")
    await until(lambda: not pool.readers)
    await until(lambda: not is_alive(idle))
    await pool.close()


async def test_a_closed_pool_ends_its_readers_and_refuses_pages(pool: ReaderPool) -> None:
    reader = await pool(reading_functions.process, b"")
    held = asyncio.create_task(pool(reading_functions.sleep, b"", 60.0))
    await until(lambda: any(each.pages for each in pool._readers))
    await pool.close()
    with pytest.raises(Short):
        await held
    with pytest.raises(Short):
        await pool(reading_functions.length, b"")
    await until(lambda: not is_alive(reader))


async def test_readers_get_no_secrets(pool: ReaderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORAGER_SECRET_KEY", "canary")
    monkeypatch.setenv("SERPER_API_KEY", "canary")
    monkeypatch.setattr(pool_module, "_SERVER", ReaderServer())
    assert "canary" not in str(await pool(reading_functions.environment, b""))


async def test_a_function_that_cannot_be_sent_runs_in_a_thread(pool: ReaderPool) -> None:
    assert await pool(lambda page: (len(page), os.getpid()), b"xy") == (2, os.getpid())


_PARENT = """
import asyncio, os, sys
from forager.reading.pool import ReaderPool
from forager.reading.server import ReaderServer
from tests.support import reading_functions

async def main():
    pool = ReaderPool(1)
    reader = await pool(reading_functions.process, b"")
    held = asyncio.ensure_future(pool(reading_functions.spin, b"", 60.0, limit=60.0))
    await asyncio.sleep(0)
    print(reader, flush=True)
    await held

asyncio.run(main())
"""


async def test_a_busy_reader_ends_when_its_parent_dies() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    reader = int(await asyncio.to_thread(parent.stdout.readline))
    assert is_alive(reader)
    parent.kill()
    parent.wait()
    await until(lambda: not is_alive(reader))
    parent.stdout.close()


# ── where a page belongs ──


class Offloading:
    """The `fetch` of a step."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def __call__(self, request: Request) -> Response:
        raise AssertionError("nothing is fetched")

    @property
    def offload(self) -> Offload:
        async def note(work: reading_functions.Deadly, page: bytes, /, *args: Any, limit: float = 5.0) -> Any:
            self.sizes.append(len(page))
            return work(page, *args)

        return note


@pytest.mark.parametrize("size", [0, 1, 20_000, 500_000])
async def test_every_page_goes_to_a_reader_however_small(size: int) -> None:
    fetch = Offloading()
    assert await parse(fetch, reading_functions.length, b"x" * size) == size
    assert fetch.sizes == [size]


async def test_a_plain_fetch_reads_pages_in_a_thread() -> None:
    async def fetch(request: Request) -> Response:
        raise AssertionError("nothing is fetched")

    assert await parse(fetch, reading_functions.process, b"") == os.getpid()
