"""Requests for robots.txt, the meaning of an answer, and its lifetime: with a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from forager.core.errors import CircuitOpen, NoHealthyProxies, ProxyFailed, Refused, TimedOut, Transient
from forager.core.http import Request, Response
from forager.core.rules import RobotsFile, RobotsVerdict
from forager.fetch import robots as fetch_robots
from forager.fetch.robots import FRESH, RETRY, VALID, RobotsTxt
from tests.support.clock import FakeClock

CLOSED = b"User-agent: *\nDisallow: /secret\nCrawl-delay: 3\n"
SECRET = "https://site.test/secret"
OPEN = "https://site.test/open"
MINUTE = 60.0


class Memory:
    """A store that forgets nothing; the real ones have their own tests."""

    def __init__(self) -> None:
        self.files: dict[str, RobotsFile] = {}

    async def read(self, origin: str) -> RobotsFile | None:
        return self.files.get(origin)

    async def keep(self, file: RobotsFile) -> None:
        self.files[file.origin] = file


class Site:
    """Answers `/robots.txt` with the given status, or raises the given error."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.says: int | BaseException = 200
        self.body = CLOSED
        self.headers: dict[str, str] = {}
        self.asked: list[Request] = []
        self.before: Callable[[], Awaitable[object]] | None = None

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        if self.before:
            await self.before()
        if isinstance(self.says, BaseException):
            raise self.says
        return Response(request.url, self.says, self.headers, self.body, self.clock.now(), 1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def site(clock: FakeClock) -> Site:
    return Site(clock)


@pytest.fixture
def store() -> Memory:
    return Memory()


@pytest.fixture
def robots(store: Memory, clock: FakeClock) -> RobotsTxt:
    return RobotsTxt(store, clock)


async def test_a_file_is_read_once_and_obeyed(robots: RobotsTxt, site: Site) -> None:
    assert await robots.ask(SECRET, site) == RobotsVerdict(allowed=False, crawl_delay=3.0)
    assert await robots.ask(OPEN, site) == RobotsVerdict(allowed=True, crawl_delay=3.0)
    assert [request.url for request in site.asked] == ["https://site.test/robots.txt"]


async def test_the_file_itself_is_always_allowed_without_a_lookup(robots: RobotsTxt, site: Site) -> None:
    site.says = 500
    assert (await robots.ask("https://site.test/robots.txt?x=1", site)).allowed
    assert site.asked == []


@pytest.mark.parametrize(
    ("says", "allowed"),
    [(200, False), (204, False), (400, True), (401, True), (403, True), (404, True), (410, True), (451, True)],
)
async def test_an_answer_decides_by_its_status(robots: RobotsTxt, site: Site, says: int, allowed: bool) -> None:
    site.says = says
    assert await robots.ask(SECRET, site) == RobotsVerdict(allowed, None if allowed else 3.0)


@pytest.mark.parametrize("says", [500, 502, 503, 599, 429, 304, 301, TimedOut(), Transient("refused")])
async def test_without_an_answer_nothing_is_allowed_for_ten_minutes(
    robots: RobotsTxt, site: Site, clock: FakeClock, says: int | BaseException
) -> None:
    site.says = says
    assert await robots.ask(OPEN, site) == RobotsVerdict(allowed=False, ask_again_in=RETRY)
    clock.advance(9 * MINUTE)
    assert await robots.ask(OPEN, site) == RobotsVerdict(allowed=False, ask_again_in=MINUTE)
    assert len(site.asked) == 1
    clock.advance(MINUTE)
    site.says = 200
    assert (await robots.ask(OPEN, site)).allowed
    assert len(site.asked) == 2


async def test_a_site_that_stays_down_is_requested_every_ten_minutes(
    robots: RobotsTxt, site: Site, clock: FakeClock
) -> None:
    site.says = 503
    for _ in range(24 * 60):
        await robots.ask(OPEN, site)
        clock.advance(MINUTE)
    assert len(site.asked) == 24 * 6


async def test_the_last_good_copy_holds_for_a_day_and_no_longer(
    robots: RobotsTxt, site: Site, clock: FakeClock
) -> None:
    await robots.ask(OPEN, site)
    site.says = 500
    clock.advance(FRESH)
    while clock.monotonic() < 1_000.0 + VALID:
        assert (await robots.ask(OPEN, site)).allowed
        assert not (await robots.ask(SECRET, site)).allowed
        clock.advance(RETRY)
    assert len(site.asked) == 1 + (VALID - FRESH) / RETRY
    assert await robots.ask(OPEN, site) == RobotsVerdict(allowed=False, ask_again_in=RETRY)


async def test_a_copy_is_fetched_again_after_half_a_day(robots: RobotsTxt, site: Site, clock: FakeClock) -> None:
    await robots.ask(OPEN, site)
    clock.advance(FRESH - 1)
    await robots.ask(OPEN, site)
    assert len(site.asked) == 1
    clock.advance(1)
    site.body = b"User-agent: *\nDisallow: /"
    assert not (await robots.ask(OPEN, site)).allowed
    assert len(site.asked) == 2


@pytest.mark.parametrize(
    ("said", "fresh"),
    [
        ("max-age=3600", 3600.0),
        ("public, max-age=3600", 3600.0),
        ("max-age=0", RETRY),
        ("s-max-age=99, no-store", FRESH),
        ("max-age=999999999", FRESH),
        ("max-age=" + "9" * 5_000, FRESH),
    ],
)
async def test_a_site_may_set_a_shorter_lifetime_of_the_copy(
    robots: RobotsTxt, site: Site, clock: FakeClock, said: str, fresh: float
) -> None:
    site.headers = {"Cache-Control": said}
    await robots.ask(OPEN, site)
    clock.advance(fresh - 1)
    await robots.ask(OPEN, site)
    assert len(site.asked) == 1
    clock.advance(1)
    await robots.ask(OPEN, site)
    assert len(site.asked) == 2


async def test_a_site_that_takes_its_file_away_allows_everything(
    robots: RobotsTxt, site: Site, clock: FakeClock
) -> None:
    await robots.ask(OPEN, site)
    clock.advance(FRESH)
    site.says = 404
    assert await robots.ask(SECRET, site) == RobotsVerdict(allowed=True)


async def test_a_restart_continues_with_what_the_ledger_kept(store: Memory, site: Site, clock: FakeClock) -> None:
    await RobotsTxt(store, clock).ask(OPEN, site)
    clock.advance(FRESH)
    site.says = 500
    await RobotsTxt(store, clock).ask(OPEN, site)
    again = RobotsTxt(store, clock)
    assert not (await again.ask(SECRET, site)).allowed
    assert (await again.ask(OPEN, site)).allowed
    assert len(site.asked) == 2
    (file,) = store.files.values()
    assert (file.origin, file.status, file.body) == ("https://site.test:443", 500, CLOSED.decode())


async def test_what_another_process_learned_meanwhile_is_used(store: Memory, site: Site, clock: FakeClock) -> None:
    ours, theirs = RobotsTxt(store, clock), RobotsTxt(store, clock)
    await ours.ask(OPEN, site)
    clock.advance(FRESH)
    site.body = b"User-agent: *\nDisallow: /"
    await theirs.ask(OPEN, site)
    assert not (await ours.ask(OPEN, site)).allowed
    assert len(site.asked) == 2


async def test_a_time_that_lies_ahead_is_not_believed(store: Memory, site: Site, clock: FakeClock) -> None:
    ahead = round(clock.now().timestamp() * 1000) + 10**9
    await store.keep(RobotsFile("https://site.test:443", ahead, 500))
    assert (await RobotsTxt(store, clock).ask(OPEN, site)).allowed


async def test_every_origin_has_a_file_of_its_own(robots: RobotsTxt, site: Site) -> None:
    for url in (
        "http://site.test/a",
        "https://site.test/a",
        "http://site.test:8080/a",
        "http://www.site.test/a",
        "http://[::1]:81/a",
        "http://user:word@SITE.test:80/b#c",
    ):
        assert (await robots.ask(url, site)).allowed
    assert [request.url for request in site.asked] == [
        "http://site.test/robots.txt",
        "https://site.test/robots.txt",
        "http://site.test:8080/robots.txt",
        "http://www.site.test/robots.txt",
        "http://[::1]:81/robots.txt",
    ]


async def test_our_name_can_be_another(store: Memory, site: Site, clock: FakeClock) -> None:
    site.body = b"User-agent: Prospector\nDisallow: /\n"
    assert (await RobotsTxt(store, clock).ask(OPEN, site)).allowed
    assert not (await RobotsTxt(store, clock, agent="prospector").ask(OPEN, site)).allowed


async def test_concurrent_lookups_send_one_request(robots: RobotsTxt, site: Site) -> None:
    gate = asyncio.Event()
    site.before = gate.wait
    asking = [asyncio.create_task(robots.ask(url, site)) for url in [SECRET, OPEN] * 50]
    while not site.asked:
        await asyncio.sleep(0)
    gate.set()
    assert [verdict.allowed for verdict in await asyncio.gather(*asking)] == [False, True] * 50
    assert len(site.asked) == 1
    assert robots._turns == {}


class Snoozed(Exception):
    """Somebody else's way of saying "not now"."""


@pytest.mark.parametrize(
    "raised", [Snoozed(), asyncio.CancelledError(), CircuitOpen(), ProxyFailed(), NoHealthyProxies()]
)
async def test_what_is_not_about_the_site_passes_through_and_lets_the_next_one_try(
    robots: RobotsTxt, site: Site, store: Memory, clock: FakeClock, raised: BaseException
) -> None:
    snoozing, gate = Site(clock), asyncio.Event()
    snoozing.says, snoozing.before = raised, gate.wait
    first = asyncio.create_task(robots.ask(OPEN, snoozing))
    while not snoozing.asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(robots.ask(OPEN, site))
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(type(raised)):
        await first
    assert (await second).allowed
    assert len(site.asked) == 1
    assert robots._turns == {}


async def test_a_cancelled_caller_delays_no_other(robots: RobotsTxt, site: Site) -> None:
    site.before = asyncio.Event().wait
    first = asyncio.create_task(robots.ask(OPEN, site))
    while not site.asked:
        await asyncio.sleep(0)
    second = asyncio.create_task(robots.ask(OPEN, site))
    await asyncio.sleep(0)
    site.before = None
    first.cancel()
    assert (await second).allowed


async def test_a_refusal_of_our_own_guard_is_raised_and_not_tried_again_at_once(
    robots: RobotsTxt, site: Site, clock: FakeClock
) -> None:
    site.says = Refused("10.0.0.1 is not public.")
    for _ in range(3):
        with pytest.raises(Refused, match=r"site\.test:443/robots\.txt: 10\.0\.0\.1 is not public"):
            await robots.ask(OPEN, site)
    assert len(site.asked) == 1
    clock.advance(RETRY)
    site.says = 200
    assert (await robots.ask(OPEN, site)).allowed


async def test_a_refusal_of_our_own_guard_is_not_kept_as_a_failure_of_the_site(
    robots: RobotsTxt, site: Site, store: Memory, clock: FakeClock
) -> None:
    site.says = Refused("10.0.0.1 is not public.")
    for process in (robots, RobotsTxt(store, clock)):
        with pytest.raises(Refused, match="is not public"):
            await process.ask(OPEN, site)


@pytest.mark.parametrize("url", ["", "site.test/x", "ftp://site.test/x", "http:///x", "http://[::1/x", "data:,x"])
async def test_what_has_no_robots_file_is_refused(robots: RobotsTxt, site: Site, url: str) -> None:
    with pytest.raises(Refused):
        await robots.ask(url, site)


async def test_the_url_is_judged_as_it_is_sent(robots: RobotsTxt, site: Site) -> None:
    site.body = "User-agent: *\nDisallow: /café?x=ü\n".encode()
    assert not (await robots.ask("https://site.test/café?x=ü", site)).allowed
    assert not (await robots.ask("https://site.test/caf%C3%A9?x=%c3%bc#there", site)).allowed
    assert (await robots.ask("https://site.test/café", site)).allowed


async def test_memory_is_bounded_and_what_left_it_comes_from_the_ledger(
    robots: RobotsTxt, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_robots, "MOST_KEPT", 3)
    for number in range(10):
        await robots.ask(f"http://s{number}.test/", site)
    assert len(robots._known) == 3
    await robots.ask("http://s0.test/", site)
    assert len(site.asked) == 10


async def test_big_files_count_for_what_they_are(
    robots: RobotsTxt, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_robots, "MOST_SIZE_KEPT", 100_000)
    site.body = b"User-agent: *\n" + b"Disallow: /abcdefghijkl\n" * 1_000
    for number in range(10):
        assert not (await robots.ask(f"http://s{number}.test/abcdefghijkl", site)).allowed
    assert 1 <= len(robots._known) <= 3
    assert robots._size == sum(fetch_robots._size(known) for known in robots._known.values())
