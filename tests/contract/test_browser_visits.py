"""Visits by real Chromium, through the gate, on a site of every kind of page."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.clock import SystemClock
from forager.core.errors import CircuitOpen, ForagerError, Permanent, Refused, TimedOut, Transient
from forager.core.http import Action, Click, Request, Response, Screenshot, Scroll, WaitFor, WaitQuiet
from forager.core.proxies import ProxyEndpoint
from forager.fetch.browser.chromium import FLAGS, ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.fingerprints import AGENTS, REGIONS
from tests.support.clock import FakeClock
from tests.support.origin import Origin, reply
from tests.support.pages import Site
from tests.support.visits import allow_only, browsing, visit

pytestmark = [pytest.mark.usefixtures("chromium"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: Path) -> AsyncIterator[BrowserFetcher]:
    async with browsing([], navigation_timeout=60) as fetcher:
        yield fetcher


@pytest.fixture
def fetch(browser: BrowserFetcher, site: Site) -> BrowserFetcher:
    """One browser for all tests, each with a site of its own."""
    allow_only(browser, site.endpoint)
    return browser


def text(response: Response) -> str:
    return response.body.decode()


async def test_a_visit_brings_the_page_its_url_status_and_headers__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/")))
    assert (response.status, response.url, response.rendered) == (200, site.url("/"), True)
    assert "<h1>static</h1>" in text(response)
    assert response.headers["x-seen"] == "yes"
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "Content-Length" not in response.headers
    assert response.elapsed_ms > 0


async def test_what_scripts_made_is_part_of_the_page__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    assert '<h1 id="made">' in text(await fetch(visit(site.url("/js"), WaitFor("#made"))))


@pytest.mark.parametrize(("path", "script", "items"), [("/lazy", Scroll(), 30), ("/endless", Scroll(2), 30)])
async def test_scrolling_continues_while_the_page_grows_and_not_beyond_its_limit__SC_5(
    fetch: BrowserFetcher, site: Site, path: str, script: Action, items: int
) -> None:
    response = await fetch(visit(site.url(path), script))
    assert len(re.findall('class="item"', text(response))) == items


async def test_a_button_is_clicked_and_one_that_is_not_there_is_passed_over__SC_5(
    fetch: BrowserFetcher, site: Site
) -> None:
    response = await fetch(visit(site.url("/consent"), Click("#no", timeout=0.1), Click("#yes"), Screenshot()))
    assert "thanks" in text(response)
    assert 'id="banner"' not in text(response)
    assert response.screenshot is not None
    assert response.screenshot.startswith(b"\x89PNG")


async def test_a_whole_page_is_pictured_but_not_an_endless_one__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    script = (Scroll(10), Screenshot(full_page=True))
    shot = (await fetch(visit(site.url("/endless"), *script))).screenshot
    assert shot is not None
    assert int.from_bytes(shot[20:24], "big") == 10_000  # the height in a PNG's header


@pytest.mark.parametrize("action", [WaitFor("#no", timeout=0.1, must=True), Click("#no", timeout=0.1, must=True)])
async def test_what_must_be_there_and_is_not_fails_the_visit__SC_5(
    fetch: BrowserFetcher, site: Site, action: Action
) -> None:
    with pytest.raises(TimedOut, match="#no"):
        await fetch(visit(site.url("/consent"), action))


async def test_a_selector_that_cannot_be_read_is_permanent__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    with pytest.raises(Permanent, match="cannot be read"):
        await fetch(visit(site.url("/"), WaitFor("##")))


async def test_a_click_may_lead_to_another_page__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/next"), Click("#on"), WaitFor("#made")))
    assert response.url == site.url("/js")


async def test_a_page_that_never_rests_is_taken_as_it_is__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/waits"), WaitQuiet(timeout=0.2)))
    assert "<h1>there</h1>" in text(response)


async def test_a_page_that_never_comes_times_out__SC_4(site: Site) -> None:
    async with browsing([site.endpoint], navigation_timeout=0.5) as fetch:
        with pytest.raises(TimedOut, match=r"0\.5 s"):
            await fetch(visit(site.url("/hang")))


async def test_popups_and_dialogs_do_not_stop_a_visit__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    assert "opener" in text(await fetch(visit(site.url("/popup"), WaitQuiet(timeout=1))))
    assert "after dialogs" in text(await fetch(visit(site.url("/dialog"))))


async def test_an_error_without_a_body_is_an_answer__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    assert (await fetch(visit(site.url("/status/404")))).status == 404
    assert (await fetch(visit(site.url("/status/503?down")))).status == 503


async def test_the_status_is_that_of_the_page_at_the_end__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/client-redirect"), WaitQuiet()))
    assert (response.status, response.url) == (200, site.url("/?landed"))


@pytest.mark.parametrize(
    ("path", "error"),
    [("/download", Permanent), ("/drop", Transient), ("/loop", Refused), ("/redirect?file:///etc/passwd", Permanent)],
)
async def test_an_answer_that_is_not_a_page_has_its_error__SC_5__S4(
    fetch: BrowserFetcher, site: Site, path: str, error: type[ForagerError]
) -> None:
    with pytest.raises(error) as raised:
        await fetch(visit(site.url(path)))
    assert str(site.port) in raised.value.message
    assert "passwd" not in raised.value.message


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "view-source:http://a.example/", "chrome://crash", "data:text/html,x"]
)
async def test_other_schemes_are_refused_before_a_browser_is_started__S4(url: str) -> None:
    async with browsing([]) as fetch:
        with pytest.raises(Refused):
            await fetch(visit(url))
        assert fetch.stats().total == 0


async def test_a_page_cannot_show_a_file__S4(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/file"), WaitQuiet()))
    assert "stays" in text(response)
    assert "root:" not in text(response)
    assert any("Not allowed to load local resource" in line for line in response.console)


async def test_a_page_larger_than_its_cap_is_refused__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    with pytest.raises(Refused, match="larger than its cap of 1,000,000"):
        await fetch(visit(site.url("/huge"), max_bytes=1_000_000))


async def test_complaints_are_kept_within_bounds__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/complains")))
    assert len(response.console) == 50
    assert all(len(line) <= 500 for line in response.console)
    assert response.console[0].startswith("error: bad")


async def test_a_page_cannot_lie_about_its_html__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/lies")))
    assert "<h1>truth</h1>" in text(response)


async def test_blocked_types_of_a_lane_are_not_requested__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    await fetch(visit(site.url("/loads")))
    assert {"/style.css", "/picture.png", "/clip.mp4", "/letters.woff2", "/code.js"} <= set(site.paths())
    site.seen.clear()
    response = await fetch(visit(site.url("/loads"), block=frozenset(("image", "font", "media", "stylesheet"))))
    assert site.paths() == ["/loads", "/code.js"]
    assert response.console == ()


async def test_nothing_is_shared_between_two_visits__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    for _ in range(2):
        response = await fetch(visit(site.url("/keeps"), WaitFor(".done")))
        assert '<p id="had" class="done">||0</p>' in text(response)
    assert fetch.stats().total == 1  # the same browser
    assert site.paths().count("/cached.js") == 2
    assert all("cookie" not in seen.headers for seen in site.seen)


async def test_service_workers_are_off__SC_5(fetch: BrowserFetcher, site: Site) -> None:
    response = await fetch(visit(site.url("/worker"), WaitFor(".done")))
    assert ">registered<" not in text(response)
    assert "/sw.js" not in site.paths()


async def test_every_hop_is_announced_before_its_request_and_counted_when_it_leaves__SC_4(
    fetch: BrowserFetcher, site: Site
) -> None:
    heard: list[str] = []

    async def on_hop(url: str) -> None:
        heard.append(f"hop {url.removeprefix(site.url(''))} after {len(site.paths())}")

    request = visit(
        site.url(f"/redirect?{site.url('/client-redirect')}"),
        WaitQuiet(),
        on_hop=on_hop,
        on_leave=lambda: heard.append("left"),
    )
    assert (await fetch(request)).url == site.url("/?landed")
    assert heard == ["left", "hop /client-redirect after 1", "left", "hop /?landed after 2", "left"]


async def test_a_hop_that_its_lane_refuses_ends_the_visit_without_a_request__SC_4(
    fetch: BrowserFetcher, site: Site
) -> None:
    async def on_hop(url: str) -> None:
        raise CircuitOpen("left alone for a while.")

    with pytest.raises(CircuitOpen, match="left alone"):
        await fetch(visit(site.url("/redirect?/js"), on_hop=on_hop))
    assert site.paths() == ["/redirect?/js"]


async def test_waiting_for_a_lane_does_not_count_against_the_site__SC_4(site: Site) -> None:
    patience = 10.0

    async def on_hop(url: str) -> None:
        await asyncio.sleep(patience + 0.5)

    async with browsing([site.endpoint], navigation_timeout=patience) as fetch:
        assert (await fetch(visit(site.url("/redirect?/"), on_hop=on_hop))).status == 200


class LeapingClock(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_the_time_of_a_visit_is_without_the_waits_for_lanes__SC_4(site: Site) -> None:
    clock = LeapingClock()

    async def on_hop(url: str) -> None:
        clock.ahead += 1_000

    async with browsing([site.endpoint], navigation_timeout=10, clock=clock) as fetch:
        response = await fetch(visit(site.url("/redirect?/"), on_hop=on_hop))
    assert clock.ahead == 1_000
    assert 0 < response.elapsed_ms < 60_000


async def test_a_redirect_to_a_private_address_is_refused__S1(fetch: BrowserFetcher, site: Site) -> None:
    async with Origin(lambda _: reply(200, b"secret")) as canary:
        with pytest.raises(Refused):
            await fetch(visit(site.url(f"/redirect?{canary.url('/')}")))
        with pytest.raises(Refused):
            await fetch(visit(site.url(f"/redirect?{canary.url('/', host='localhost')}")))
        assert canary.connections == 0


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
async def test_no_datagram_leaves_a_browser__S1(site: Site, guarded: bool) -> None:
    """WebRTC and QUIC would bypass every proxy. The canary receives STUN and WebTransport."""
    launcher = ChromiumLauncher(flags=FLAGS if guarded else [flag for flag in FLAGS if "webrtc" not in flag])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as canary:
        canary.bind(("127.0.0.1", 0))
        canary.setblocking(False)
        url = site.url(f"/webrtc?127.0.0.1:{canary.getsockname()[1]}")
        async with browsing([site.endpoint], launcher=launcher) as fetch:
            assert 'class="done"' in text(await fetch(visit(url, WaitFor(".done"))))
        try:
            heard = len(canary.recv(2_000))
        except BlockingIOError:
            heard = 0
        assert bool(heard) is not guarded


async def test_a_proxy_that_is_down_is_the_proxys_failure__SC_9(site: Site) -> None:
    from forager.core.errors import ProxyFailed

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        proxy = ProxyEndpoint("http", "127.0.0.1", port)
        async with browsing([site.endpoint, f"127.0.0.1:{port}"], endpoints=lambda _: proxy) as fetch:
            with pytest.raises(ProxyFailed):
                await fetch(visit(site.url("/"), proxy=7))


async def test_a_real_browser_reports_the_values_of_its_fingerprint__SC_6(site: Site) -> None:
    proxy = ProxyEndpoint("http", "127.0.0.1", 1, region="JP")
    agents = {agent.user_agent: agent for agent in AGENTS}
    async with browsing([site.endpoint]) as fetch:
        plain = _said(await fetch(visit(site.url("/agent"), WaitFor(".done"))))
        asked = next(seen for seen in site.seen if seen.target == "/agent")
        abroad = fetch._manner(visit(site.url("/agent")), proxy.region).fingerprint
        fetch._fingerprints.next = lambda region=None: abroad  # type: ignore[method-assign]
        there = _said(await fetch(visit(site.url("/agent"), WaitFor(".done"))))
    for said in (plain, there):
        agent = agents[said["agent"]]
        assert said["platform"] == agent.platform
        assert said["hints"]["platform"] == agent.system
        assert said["hints"]["fullVersionList"] == agent.client_hints()["fullVersionList"]
        assert said["worker"] == [said["agent"], said["language"], said["zone"]]
    assert (plain["language"], plain["zone"], plain["position"]) == ("en-US", "UTC", None)
    assert asked.headers["user-agent"] == plain["agent"]
    assert asked.headers["accept-language"].startswith("en-US,en;q=")
    assert (there["language"], there["zone"]) == ("ja-JP", "Asia/Tokyo")
    assert there["languages"] == ["ja-JP", "ja", "en-US", "en"]
    assert abs(there["position"][0] - REGIONS["JP"].places[0].latitude) < 0.03
    assert (there["width"], there["height"]) == abroad.viewport


def _said(response: Response) -> dict[str, Any]:
    found = re.search(r'<pre id="out" class="done">(.*?)</pre>', text(response))
    assert found
    said: dict[str, Any] = json.loads(found[1])
    return said


@pytest.mark.parametrize("stealth", [True, False])
async def test_a_page_sees_that_a_program_drives_only_without_stealth__SC_6(stealth: bool, tmp_path: Path) -> None:
    page = b"<h1></h1><script>document.querySelector('h1').textContent = String(navigator.webdriver)</script>"
    async with Origin(lambda _: reply(body=page, Content_Type="text/html")) as origin:
        settings = new_settings(home=tmp_path, egress_allow=(origin.endpoint,), browser_stealth=stealth)
        async with open_app(settings) as app:
            response = await app.browsers(visit(origin.url()))
    assert f"<h1>{str(not stealth).lower()}</h1>" in text(response)


async def test_pauses_are_taken_by_the_injected_clock__SC_6(site: Site) -> None:
    clock = FakeClock()
    slept: list[float] = []

    class Recording(FakeClock):
        async def sleep(self, seconds: float) -> None:
            if seconds != 0.25:  # the pool's own ticking
                slept.append(seconds)
            await asyncio.sleep(0.01)

    async with browsing([site.endpoint], clock=Recording(clock.now())) as fetch:
        await fetch(visit(site.url("/"), WaitFor("h1"), WaitFor("h1"), delay=(3.0, 4.0)))
    assert len(slept) == 2
    assert all(3 <= seconds <= 4 for seconds in slept)


@pytest.mark.parametrize(
    "named",
    [{"method": "POST"}, {"body": b"x"}, {"headers": {"Authorization": "Bearer x"}}],
    ids=lambda given: next(iter(given)),
)
async def test_what_a_browser_would_repeat_to_strangers_is_not_sent__S7(
    fetch: BrowserFetcher, site: Site, named: dict[str, object]
) -> None:
    with pytest.raises(Permanent, match="plain HTTP"):
        await fetch(visit(site.url("/"), **named))
    assert site.paths() == []


async def test_both_ways_are_one_fetcher_and_auto_is_not_its_business__SC_3(fetch: BrowserFetcher, site: Site) -> None:
    from forager.fetch.http.fetcher import Fetcher

    async def plain(request: Request) -> Response:
        return Response(request.url, 204, {}, b"", FakeClock().now(), 1)

    both = Fetcher(plain, fetch)
    assert (await both(Request(site.url("/")))).status == 204
    assert (await both(visit(site.url("/")))).rendered
    with pytest.raises(ValueError, match="auto"):
        await both(Request(site.url("/"), render="auto"))


async def test_a_missing_chromium_is_reported_with_its_package(tmp_path: Path) -> None:
    from forager.core.errors import Unconfigured
    from forager.fetch.browser.chromium import find_chromium

    with pytest.raises(Unconfigured, match="apt-get install chromium-headless-shell"):
        find_chromium(which=lambda _: None)
    with pytest.raises(Unconfigured, match="FORAGER_CHROMIUM names"):
        find_chromium(tmp_path / "nothing")
