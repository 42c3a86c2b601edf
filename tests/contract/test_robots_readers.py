"""Large robots.txt files are parsed and matched by readers, and one that no reader can parse allows nothing."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.reading import LIMIT
from forager.core.rules import RobotsFile, RobotsVerdict
from forager.fetch.robots import RETRY, SMALL, RobotsTxt, is_allowed, summarise
from forager.reading.pool import ReaderPool

pytestmark = pytest.mark.one_store
MB = 1024 * 1024
OPEN, SECRET = "https://site.test/open", "https://site.test/secret"
OTHERS = b"User-agent: b\nDisallow: /%d\n" * 1_000 % tuple(range(1_000))
FEW = OTHERS + b"User-agent: *\nDisallow: /secret\nCrawl-delay: 3\n"
MANY = b"User-agent: *\nDisallow: /secret\nCrawl-delay: 3\n" + b"".join(
    b"Disallow: /%d*z$\n" % n for n in range(20_000)
)


class Store:
    """A store that forgets nothing."""

    def __init__(self) -> None:
        self.files: dict[str, RobotsFile] = {}

    async def read(self, origin: str) -> RobotsFile | None:
        return self.files.get(origin)

    async def keep(self, file: RobotsFile) -> None:
        self.files[file.origin] = file


class Counted:
    """Readers that note which functions they were sent."""

    def __init__(self, pool: ReaderPool) -> None:
        self.pool = pool
        self.sent: list[Any] = []

    async def __call__(self, work: Callable[..., Any], page: bytes, /, *args: Any, limit: float = LIMIT) -> Any:
        self.sent.append(work)
        return await self.pool(work, page, *args, limit=limit)


@pytest.fixture
async def readers() -> AsyncIterator[Counted]:
    pool = ReaderPool(1)
    yield Counted(pool)
    await pool.close()


def site(body: bytes) -> Fetch:
    async def answer(request: Request) -> Response:
        return Response(request.url, 200, {}, body, SystemClock().now(), 1)

    return answer


async def test_a_small_file_needs_no_reader(readers: Counted) -> None:
    robots = RobotsTxt(Store(), SystemClock(), offload=readers)
    assert not (await robots.ask(SECRET, site(FEW[-47:]))).allowed
    assert readers.sent == []


async def test_a_large_file_with_few_lines_for_us_is_parsed_once_by_a_reader(readers: Counted) -> None:
    assert len(FEW) > SMALL
    robots = RobotsTxt(Store(), SystemClock(), offload=readers)
    assert await robots.ask(SECRET, site(FEW)) == RobotsVerdict(allowed=False, crawl_delay=3.0)
    assert await robots.ask(OPEN, site(FEW)) == RobotsVerdict(allowed=True, crawl_delay=3.0)
    assert readers.sent == [summarise]


async def test_many_rules_are_matched_by_a_reader(readers: Counted) -> None:
    robots = RobotsTxt(Store(), SystemClock(), offload=readers)
    assert await robots.ask(SECRET, site(MANY)) == RobotsVerdict(allowed=False, crawl_delay=3.0)
    assert await robots.ask(OPEN, site(MANY)) == RobotsVerdict(allowed=True, crawl_delay=3.0)
    assert not (await robots.ask("https://site.test/19999/a/z", site(MANY))).allowed
    assert readers.sent == [summarise, is_allowed, is_allowed, is_allowed]


async def test_a_file_that_no_reader_can_parse_allows_nothing_and_is_requested_again_later() -> None:
    pool, store = ReaderPool(1, memory=2 * MB), Store()
    try:
        for robots in (RobotsTxt(store, SystemClock(), offload=pool), RobotsTxt(store, SystemClock(), offload=pool)):
            verdict = await robots.ask(OPEN, site(MANY))  # the second one finds the file in the store
            assert not verdict.allowed
            assert verdict.ask_again_in == pytest.approx(RETRY, abs=60)
    finally:
        await pool.close()
