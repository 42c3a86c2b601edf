"""The sandbox site on a real port, called by a real client: every kind of page, robots, limits, outages, the log."""

import asyncio
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import aiohttp
import pytest

from forager.fetch.page_classifier import looks
from forager.sandbox import Outage, SandboxSite, SiteAnswer, SiteVisit, most_in_flight, most_starts


@pytest.fixture
async def site() -> AsyncIterator[SandboxSite]:
    async with SandboxSite() as running:
        yield running


@pytest.fixture
async def client(site: SandboxSite) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


class Got:
    def __init__(self, answer: aiohttp.ClientResponse, body: bytes) -> None:
        self.status, self.headers, self.body = answer.status, answer.headers, body
        self.looks = looks(answer.status, answer.headers, body)


async def get(client: aiohttp.ClientSession, url: str, **named: str) -> Got:
    async with client.get(url, allow_redirects=False, headers=named) as answer:
        return Got(answer, await answer.read())


@pytest.mark.parametrize(
    ("path", "status", "seen"),
    [
        ("/", 200, "page"),
        ("/page/7", 200, "page"),
        ("/page/100000", 404, "page"),
        ("/nowhere", 404, "page"),
        ("/shell", 200, "empty_shell"),
        ("/challenge", 403, "challenge"),
        ("/blocked", 403, "block"),
        ("/login", 200, "page"),
        ("/status/503", 503, "page"),
        ("/slow?seconds=0.01", 200, "page"),
    ],
)
async def test_there_is_a_page_of_every_kind(
    site: SandboxSite, client: aiohttp.ClientSession, path: str, status: int, seen: str
) -> None:
    got = await get(client, site.url(path))
    assert (got.status, got.looks) == (status, seen)


async def test_a_challenge_lets_its_cookie_through(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    got = await get(client, site.url("/challenge"), Cookie="passed=yes")
    assert (got.status, got.looks) == (200, "page")


async def test_retry_after_comes_as_seconds_or_as_a_date(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    assert "Retry-After" not in (await get(client, site.url("/status/429"))).headers
    assert (await get(client, site.url("/status/503?after=7"))).headers["Retry-After"] == "7"
    dated = await get(client, site.url("/status/429?after_date=60"))
    ahead = parsedate_to_datetime(dated.headers["Retry-After"]).timestamp() - site.log[-1].wall
    assert 55 < ahead <= 61


async def test_a_redirect_leads_to_another_site(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    async with SandboxSite() as other:
        got = await get(client, site.url(f"/redirect?status=307&to={other.url('/page/1')}"))
        assert (got.status, got.headers["Location"]) == (307, other.url("/page/1"))
        async with client.get(site.url(f"/redirect?to={other.url('/page/1')}")) as followed:
            assert followed.status == 200
        assert [visit.path for visit in other.log] == ["/page/1"]


async def test_a_huge_answer_has_the_requested_length(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    assert len((await get(client, site.url("/huge?bytes=3000001"))).body) == 3_000_001 + len("<!doctype html><p>")


async def test_robots_and_single_pages_can_be_set_while_it_runs(
    site: SandboxSite, client: aiohttp.ClientSession
) -> None:
    assert (await get(client, site.url("/robots.txt"))).status == 404
    site.set_robots("User-agent: *\nDisallow: /", Cache_Control="max-age=60")
    got = await get(client, site.url("/robots.txt"))
    assert (got.status, got.body, got.headers["Cache-Control"]) == (200, b"User-agent: *\nDisallow: /", "max-age=60")
    site.set_robots("", 503)
    assert (await get(client, site.url("/robots.txt"))).status == 503
    site.answers["/a"] = SiteAnswer(200, b"mine")
    site.answers["/b"] = lambda request: SiteAnswer(200, request.query.encode())
    assert (await get(client, site.url("/a"))).body == b"mine"
    assert (await get(client, site.url("/b?x=1"))).body == b"x=1"


async def test_requests_above_the_limit_get_retry_after(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    site.limit, site.limit_after = 3, 2.0
    answers = await asyncio.gather(*(get(client, site.url("/")) for _ in range(5)))
    assert sorted(got.status for got in answers) == [200, 200, 200, 429, 429]
    assert {got.headers["Retry-After"] for got in answers if got.status == 429} == {"2"}


async def test_it_goes_down_and_comes_back_in_every_way(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    await site.fail(Outage.ERROR)
    assert (await get(client, site.url("/"))).status == 500
    await site.fail(Outage.RESET)
    with pytest.raises(aiohttp.ClientError):
        await get(client, site.url("/"))
    await site.fail(Outage.BLACK_HOLE)
    before = len(site.log)  # the client itself sends a request again when a kept connection ends
    waiting = asyncio.create_task(get(client, site.url("/hole")))
    await site.arrived(before + 1)
    waiting.cancel()
    port = site.port
    await site.fail(Outage.REFUSED)
    with pytest.raises(aiohttp.ClientConnectorError):
        await get(client, site.url("/"))
    await site.fail(None)
    assert (await get(client, site.url("/"))).status == 200
    assert site.port == port
    assert [visit.status for visit in site.visits("/hole")] == [0]


async def test_one_host_can_be_down_while_others_are_up(site: SandboxSite, client: aiohttp.ClientSession) -> None:
    await site.fail(Outage.ERROR, host="down.test")
    down = await get(client, site.url("/"), Host=f"down.test:{site.port}")
    up = await get(client, site.url("/"), Host=f"up.test:{site.port}")
    assert (down.status, up.status) == (500, 200)
    assert [visit.host for visit in site.log] == ["down.test", "up.test"]
    assert len(site.visits(host="up.test")) == 1


async def test_who_leaves_before_a_slow_answer_is_written_down_as_unanswered(
    site: SandboxSite, client: aiohttp.ClientSession
) -> None:
    waiting = asyncio.create_task(get(client, site.url("/slow?seconds=60")))
    await site.arrived(1)
    waiting.cancel()
    while site.log[0].ended is None:
        await asyncio.sleep(0)
    assert site.log[0].status == 0


def visit(at: float, ended: float | None = None) -> SiteVisit:
    return SiteVisit(1, at, 0, "", "GET", "/", "", {}, 200, ended)


def test_the_auditor_counts_starts_in_any_window_and_what_is_under_way() -> None:
    visits = [visit(at, at + 0.5) for at in (0.0, 0.6, 0.9, 1.0, 1.59, 5.0)]
    assert most_starts(visits, 1.0) == 4
    assert most_starts(visits, 0.01) == 1
    assert most_starts([], 1.0) == 0
    assert most_in_flight(visits) == 3
    assert most_in_flight([visit(0.0), visit(9.0)]) == 2
