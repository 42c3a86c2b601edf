"""robots.txt files in the ledger, on both databases; and the whole way from a real server over the fetcher to a row."""

import asyncio

from forager.core.clock import SystemClock
from forager.core.rules import RobotsFile
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.robots import MOST_BYTES, RobotsTxt, decoded
from forager.ledger.tables.domains import OF_USE_MS, PRUNED_AT_ONCE, LedgerRobots
from tests.support.origin import Origin, Seen, reply
from tests.support.rig import Rig

FILE = RobotsFile("https://site.test:443", 1_000, 200, "User-agent: *\nDisallow: /ü\n", 1_000)


def store_of(rig: Rig) -> LedgerRobots:
    return LedgerRobots(rig.ledger.database)


async def test_a_file_is_kept_as_it_is(rig: Rig) -> None:
    store = store_of(rig)
    assert await store.read(FILE.origin) is None
    await store.keep(FILE)
    assert await store.read(FILE.origin) == FILE
    nothing = RobotsFile("http://site.test:80", 5)
    await store.keep(nothing)
    assert await store.read(nothing.origin) == nothing


async def test_a_later_try_replaces_an_earlier_one_and_never_the_other_way_round(rig: Rig) -> None:
    store = store_of(rig)
    later = RobotsFile(FILE.origin, 2_000, 503, FILE.body, FILE.good_at)
    await store.keep(later)
    await store.keep(FILE)
    assert await store.read(FILE.origin) == later


async def test_many_processes_that_keep_at_once_leave_the_latest(rig: Rig) -> None:
    store = store_of(rig)
    await asyncio.gather(*(store.keep(RobotsFile(FILE.origin, at, 200, str(at), at)) for at in (3, 9, 1, 7, 5)))
    assert await store.read(FILE.origin) == RobotsFile(FILE.origin, 9, 200, "9", 9)


async def test_files_not_used_for_a_week_are_removed_and_the_others_stay(rig: Rig) -> None:
    store = store_of(rig)
    now = round((await rig.ledger.now()).timestamp() * 1000)
    recent = RobotsFile("https://recent.test:443", now - OF_USE_MS + 60_000, 200, "", now - 20 * OF_USE_MS)
    old = RobotsFile("https://old.test:443", now - OF_USE_MS - 60_000, 200, "", now - OF_USE_MS - 60_000)
    for file in (recent, old):
        await store.keep(file)
    assert (await rig.ledger.sweep()).robots_removed == 1
    assert await store.read(recent.origin) == recent, "it was tried since, although in vain"
    assert await store.read(old.origin) is None


async def test_one_sweep_removes_a_page_of_them_and_the_next_continues(rig: Rig) -> None:
    store = store_of(rig)
    for number in range(PRUNED_AT_ONCE + 3):
        await store.keep(RobotsFile(f"https://s{number}.test:443", 1, 200, "", 1))
    assert [(await rig.ledger.sweep()).robots_removed for _ in range(3)] == [PRUNED_AT_ONCE, 3, 0]


async def test_the_largest_and_strangest_file_can_be_kept(rig: Rig) -> None:
    store = store_of(rig)
    body = decoded(bytes(range(256)) * 40_000)
    await store.keep(RobotsFile(FILE.origin, 1, 200, body, 1))
    kept = await store.read(FILE.origin)
    assert kept is not None
    assert kept.body == body
    assert len(body) <= MOST_BYTES


async def test_a_real_file_is_fetched_over_a_redirect_obeyed_and_kept(rig: Rig) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.target == "/robots.txt":
            return reply(302, Location="/other/robots.txt")
        return reply(200, b"\xef\xbb\xbfUser-agent: forager\nDisallow: /secret\n" + b"# padding\n" * 1_000_000)

    async with Origin(answer) as origin:
        clock = SystemClock()
        fetch = HttpFetcher(EgressGuard(allow=[origin.endpoint]), clock, lambda _: None)
        try:
            robots = RobotsTxt(store_of(rig), clock)
            assert not (await robots.ask(origin.url("/secret"), fetch)).allowed
            assert (await robots.ask(origin.url("/open"), fetch)).allowed
        finally:
            await fetch.close()
        assert [seen.target for seen in origin.seen] == ["/robots.txt", "/other/robots.txt"]
        kept = await store_of(rig).read(f"http://{origin.endpoint}")
        assert kept is not None
        assert (kept.status, kept.good_at) == (200, kept.tried_at)
        restarted = RobotsTxt(store_of(rig), clock)
        assert not (await restarted.ask(origin.url("/secret"), fetch)).allowed
