"""The world of apartments over time, and the site that its pages are on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from forager.sandbox import ApifyConfig, ApifySandbox, ListingsWorld, Outage, When
from forager.sandbox.listings import SimulatedListing, home_of
from forager.sandbox.listings.world import DAY

START = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
MARKETS = ("Boston, MA", "New York City, NY", "Hoboken, NJ")


def test_the_same_seed_is_the_same_world_and_another_is_another() -> None:
    first, again, other = (ListingsWorld(seed, 50).listings("Boston, MA", START) for seed in (7, 7, 8))
    assert first == again != other


def test_listings_appear_are_rented_and_come_back() -> None:
    world = ListingsWorld(homes=60)
    days = [set(world.listings("Boston, MA", START + day * DAY)) for day in range(120)]
    gone = [listing for listing in days[0] if any(listing not in day for day in days)]
    back = [listing for listing in gone if any(listing in day for day in days[_first_absence(listing, days) :])]
    assert gone
    assert back
    assert set().union(*days) - days[0], "some appear later"
    assert set.intersection(*days), "some stay"


def _first_absence(listing: SimulatedListing, days: list[set[SimulatedListing]]) -> int:
    return next(number for number, day in enumerate(days) if listing not in day)


def test_spans_agree_with_what_is_listed_at_any_moment() -> None:
    world = ListingsWorld(homes=30)
    end = START + 90 * DAY
    for listing in world.all_listings("Boston, MA"):
        spans = list(world.spans(listing, START, end))
        for hour in range(0, 90 * 24, 7):
            moment = START + hour * 3600
            assert world.listed(listing, moment) == any(span.holds(moment) for span in spans)


def test_rents_change_over_time_but_not_from_one_hour_to_the_next() -> None:
    world = ListingsWorld(homes=60, moving_share=0)
    market = world.market("Boston, MA")
    changed = 0
    for listing in world.all_listings("Boston, MA"):
        rents = [home_of(world, market, listing, START + day * DAY).rents for day in range(0, 60, 3)]
        changed += len(set(rents)) > 1
        hours = {home_of(world, market, listing, START + hour * 60).rents for hour in range(10)}
        assert len(hours) <= 2
    assert changed > 30


def test_a_twin_is_the_same_listing_under_another_title_id_and_spelling_and_leaves_first() -> None:
    world = ListingsWorld(homes=200, twin_share=0.2)
    market = world.market("Boston, MA")
    twins = [listing for listing in world.all_listings("Boston, MA") if listing.twin]
    assert 20 < len(twins) < 60
    for twin in twins:
        first = SimulatedListing(twin.market, twin.home, twin=False)
        one, two = (home_of(world, market, listing, START) for listing in (first, twin))
        assert (one.id, one.title, one.street) != (two.id, two.title, two.street)
        assert one.street.split()[0] == two.street.split()[0]
        assert (one.zip, one.beds, one.rents) == (two.zip, two.beds, two.rents)
        assert abs(one.latitude - two.latitude) < 0.0001
    moving = [twin for twin in twins if world.timeline(SimulatedListing(twin.market, twin.home, twin=False)).moves]
    lone = [
        twin
        for twin in moving
        for day in range(60)
        if not world.listed(twin, START + day * DAY) and world.home_listed(twin, START + day * DAY)
    ]
    assert lone, "one portal dropped a home that the other still has"


@pytest.mark.parametrize("market", MARKETS)
def test_an_id_identifies_its_listing(market: str) -> None:
    world = ListingsWorld(homes=500)
    listings = list(world.all_listings(market))
    ids = [world.listing_id(listing) for listing in listings]
    assert len(set(ids)) == len(ids)
    assert [world.listing(each) for each in ids] == listings
    assert world.listing("nothing!") is None
    assert world.listing("zzzzzzz") is None


def test_markets_have_sizes_of_their_own_and_their_own_listings() -> None:
    world = ListingsWorld(homes=10, sizes={"Boston, MA": 25}, twin_share=0)
    assert len(list(world.all_listings("Boston, MA"))) == 25
    assert len(list(world.all_listings("Hoboken, NJ"))) == 10
    assert len({world.market(market).number for market in MARKETS}) == 3
    assert world.market("boston,ma") == world.market("Boston, MA")


class Clock:
    def __init__(self) -> None:
        self.moment = datetime.fromtimestamp(START, UTC)

    def now(self) -> datetime:
        return self.moment


@asynccontextmanager
async def site_with(**knobs: Any) -> AsyncIterator[tuple[ApifySandbox, aiohttp.ClientSession, Clock]]:
    clock = Clock()
    config = ApifyConfig(**{"homes": 60, **knobs})
    async with (
        ApifySandbox(config, now=clock.now) as apify,
        aiohttp.ClientSession(apify.site_url) as session,
    ):
        yield apify, session, clock


async def get(session: aiohttp.ClientSession, path: str) -> tuple[int, str, str]:
    async with session.get(path, allow_redirects=False) as got:
        return got.status, await got.text(), got.headers.get("Location", "")


def leaver(world: ListingsWorld) -> tuple[SimulatedListing, float]:
    """A listing that is live now, and a moment at which it is gone."""
    for listing in world.listings("Boston, MA", START):
        end = world.timeline(listing).span(START).end
        if end < START + 60 * DAY:
            return listing, end + 60
    raise AssertionError("no home leaves")


async def test_a_live_page_shows_the_listing_and_a_gone_one_reports_that() -> None:
    for kind in ("404", "410", "phrase", "search"):
        async with site_with(gone=(kind,)) as (apify, session, clock):
            listing, later = leaver(apify.world)
            path = f"/any-slug/{apify.world.listing_id(listing)}/"
            status, text, _ = await get(session, path)
            assert status == 200
            assert home_of(apify.world, apify.world.market("Boston, MA"), listing, START).title in text
            clock.moment = datetime.fromtimestamp(later, UTC)
            status, text, location = await get(session, path)
            assert status == {"404": 404, "410": 410, "phrase": 200, "search": 302}[kind]
            assert ("no longer available" in text) == (kind == "phrase")
            assert bool(location) == (kind == "search")
            if location:
                assert (await get(session, location))[0] == 200
            assert [call.operation for call in apify.log][:2] == ["page.get", "page.get"]


async def test_some_live_pages_have_the_sentence_of_gone_ones_in_a_script() -> None:
    async with site_with() as (apify, session, _):
        ids = [apify.world.listing_id(listing) for listing in apify.world.listings("Boston, MA", START)]
        pages = [(await get(session, f"/x/{each}/"))[1] for each in ids]
        traps = [page for page in pages if "no longer available" in page]
        assert 0 < len(traps) < len(pages)
        assert all("no longer available" not in page.partition("</script>")[2] for page in traps)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("captcha", 403, "robot"),
        ("captcha_200", 200, "robot"),
        ("blocked", 403, "Access Denied"),
        ("parked", 200, "domain is for sale"),
        ("login_wall", 200, "Sign in"),
        ("login_redirect", 302, ""),
        ("http429", 429, "429"),
        ("http500", 500, "500"),
    ],
)
async def test_pages_without_information_about_the_listing(fault: str, status: int, words: str) -> None:
    async with site_with(script=(When(fault, operation="page.get"),)) as (apify, session, _):
        path = f"/rentals/{apify.world.listing_id(apify.world.listings('Boston, MA', START)[0])}"
        got, text, location = await get(session, path)
        assert got == status
        assert words in text
        assert location == ("/login" if fault == "login_redirect" else "")
        assert (await get(session, path))[0] == 200


async def test_unknown_pages_are_404_and_robots_can_be_set() -> None:
    async with site_with(site_robots="User-agent: *\nDisallow: /\n") as (_, session, _clock):
        assert (await get(session, "/x/zzzzzzz/"))[0] == 404
        assert (await get(session, "/nowhere/at/all"))[0] == 404
        assert (await get(session, "/robots.txt"))[:2] == (200, "User-agent: *\nDisallow: /\n")
        assert (await get(session, "/boston-ma/"))[0] == 200


async def test_the_site_can_be_down_while_the_api_is_up() -> None:
    async with site_with() as (apify, session, _):
        await apify.fail(Outage.REFUSED, "site")
        with pytest.raises(aiohttp.ClientError):
            await get(session, "/")
        async with session.get(f"{apify.url}/v2/acts/x/runs", headers={"Authorization": "Bearer sandbox-a"}) as got:
            assert got.status == 404
        await apify.fail(None, "site")
        assert (await get(session, "/"))[0] == 200


async def test_a_run_finds_the_listings_that_the_site_shows() -> None:
    async with site_with() as (apify, session, clock):
        for _ in range(3):
            headers = {"Authorization": "Bearer sandbox-a"}
            url = f"{apify.url}/v2/acts/epctex~apartments-scraper-api/runs"
            async with session.post(url, json={"search": "Boston, MA"}, headers=headers) as got:
                dataset = (await got.json())["data"]["defaultDatasetId"]
            live = {
                apify.world.listing_id(each) for each in apify.world.listings("Boston, MA", clock.moment.timestamp())
            }
            clock.moment += timedelta(minutes=5)
            async with session.get(f"{apify.url}/v2/datasets/{dataset}/items") as got:
                rows = await got.json()
            assert {row["id"] for row in rows} == live
            assert (await get(session, rows[0]["url"].removeprefix(apify.site_url)))[0] == 200
            clock.moment += timedelta(days=9)
