"""The engine against a web site: whose rules hold, what waits, what fails; the site's own log has the last word."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from forager.core.errors import BrowserCrashed, NoHealthyProxies, PoolExhausted, Short, StoreUnavailable
from forager.core.http import Fetch, Request, Response
from forager.core.pipeline import Breaker, Hours, Retry
from forager.fetch.looks import looks as looks_like
from forager.sandbox.site import Outage, SandboxSite, most_in_flight, most_starts
from forager.sandbox.site_pages import Answer, retry_after
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import EngineRig, until
from tests.support.sites import BREAKER, SITE, RulesByHost, looks, plans, site_worker


def usual_challenge() -> Answer:
    """A page that asks whether we are a browser, as one of the big walls writes it."""
    text = "<title>Just a moment...</title><script src='/cdn-cgi/challenge-platform/h/b/orchestrate/jsch/v1'></script>"
    return Answer(403, f"<!doctype html><html><head>{text}</head><body></body></html>".encode())


def error(rig: EngineRig, job: object, url: str) -> str:
    return str(rig.tasks(job)[url]["error"])  # type: ignore[arg-type]


# ── robots.txt ──


async def test_what_robots_txt_forbids_is_skipped_with_its_remedy_and_never_asked__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nDisallow: /page/2")
        rig = await open_rig(looks())
        urls = [site.url(f"/page/{n}", host="a.example") for n in (1, 2, 3)]
        job = await rig.submit(plans(urls), "looks")
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, robots=True)), robots=True)
        await worker.run(until_idle=True)
        assert list(rig.states(job).values()) == ["completed", "skipped", "completed"]
        assert "forager lanes set a.example" in error(rig, job, urls[1])
        assert [v.path for v in site.log].count("/robots.txt") == 1
        assert not site.visits("/page/2")


async def test_a_lane_that_does_not_ask_for_robots_txt_reads_none(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nDisallow: /")
        rig = await open_rig(looks())
        job = await rig.submit(plans([site.url("/page/1", host="a.example")]), "looks")
        await site_worker(rig, [site], RulesByHost(), robots=True).run(until_idle=True)
        assert rig.job(job)["state"] == "completed"
        assert not site.visits("/robots.txt")


async def test_an_unreachable_robots_txt_makes_the_task_wait_and_burns_nothing__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("", status=500)
        rig = await open_rig(looks())
        url = site.url("/page/1", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, robots=True)), robots=True)
        async with rig.working(worker):
            await until(lambda: rig.states(job)[url] == "waiting")
            task = rig.tasks(job)[url]
            assert task["attempt"] == 0
            assert 500 < task["due"] / 1000 - time.time() <= 700, "tried again in ten minutes"
        assert not site.visits("/page/1")


async def test_a_crawl_delay_is_kept_between_requests__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nCrawl-delay: 0.4")
        rig = await open_rig(looks())
        await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 5)), "looks")
        await site_worker(rig, [site], RulesByHost(replace(SITE, robots=True)), robots=True).run(until_idle=True)
        visits = [v.at for v in site.log if v.path != "/robots.txt"]
        # The pages that were on their way when the file arrived were planned without it; from then on the pause holds.
        assert min(later - sooner for sooner, later in zip(visits[-3:], visits[-2:], strict=False)) >= 0.38


# ── being asked to slow down ──


@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_obeyed_and_burns_no_attempt__SC_7(open_rig: OpenRig, as_date: bool) -> None:
    async with SandboxSite() as site:
        wait = 3.0 if as_date else 1.0  # a date has whole seconds only
        fine = Answer(200, b"<p>fine</p>")
        site.answers["/x"] = lambda _: (
            Answer(429, headers=retry_after(wait, date=as_date)) if len(site.log) == 1 else fine
        )
        rig = await open_rig(looks())
        url = site.url("/x", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        await site_worker(rig, [site], RulesByHost()).run(until_idle=True)
        first, second = site.log
        assert second.at - first.at >= wait - 1.01 * as_date
        assert rig.states(job)[url] == "completed"
        assert rig.tasks(job)[url]["attempt"] == 1
        assert rig.job(job)["retries"] == 0


async def test_after_a_429_the_site_gets_half_the_rate__SC_P26(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        once = iter([Answer(429)])
        site.answers["/page/1"] = lambda _: next(once, Answer(200, b"<p>fine</p>"))
        rig = await open_rig(looks())
        await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 25)), "looks")
        rules = RulesByHost(replace(SITE, rate=20, per=1.0, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert most_starts(site.log, 1.0) <= 20
        assert most_starts([v for v in site.log if v.at > site.log[0].at + 1.1], 1.0) <= 10


# ── redirects ──


async def test_each_hop_is_charged_to_the_lane_of_its_own_host(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        target = site.url("/page/1", host="b.example")
        urls = [site.url(f"/redirect?to={target}&n={n}", host="a.example") for n in range(6)]
        direct = [site.url(f"/page/{n}", host="b.example") for n in range(2, 8)]
        job = await rig.submit(plans([*urls, *direct]), "looks")
        rules = RulesByHost(SITE, b_example=replace(SITE, rate=4, per=1.0, burst=4))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        assert len(site.visits(host="b.example")) == 12
        assert most_starts(site.visits(host="b.example"), 1.0) <= 4
        assert most_starts(site.visits(host="a.example"), 1.0) == 6


async def test_a_redirect_into_what_robots_txt_forbids_is_not_followed__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nDisallow: /page/9")
        rig = await open_rig(looks())
        url = site.url(f"/redirect?to={site.url('/page/9', host='b.example')}", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        rules = RulesByHost(replace(SITE, robots=True))
        await site_worker(rig, [site], rules, robots=True).run(until_idle=True)
        assert rig.states(job)[url] == "skipped"
        assert not site.visits("/page/9")


async def test_a_slow_lane_behind_a_redirect_is_waited_for_not_begun_anew(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks(timeout=2.0))
        urls = [site.url(f"/redirect?to=/page/{n}&n={n}", host="a.example") for n in (1, 2)]
        job = await rig.submit(plans(urls), "looks")
        rules = RulesByHost(replace(SITE, rate=1, per=1.5, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        assert most_starts(site.log, 1.5) == 1
        assert len(site.log) == 4, "no redirect was asked for twice, and waiting did not count as the step's time"


async def test_a_redirect_that_must_wait_for_long_goes_on_where_it_was(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.engine.passage.LONGEST_TAIL", 0.2)
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        url = site.url("/redirect?to=/page/1", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        rules = RulesByHost(replace(SITE, rate=1, per=1.0, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert rig.states(job)[url] == "completed"
        assert [v.path for v in site.log] == ["/redirect", "/page/1"]
        assert rig.tasks(job)[url]["attempt"] == 1


async def test_a_redirect_into_a_paused_lane_waits_and_asks_nobody_again(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        target = site.url("/page/1", host="b.example")
        urls = [site.url(f"/redirect?to={target}&n={n}", host="a.example") for n in range(3)]
        await rig.ledger.pause_lane(f"b.example:{site.port}", paused=True)
        job = await rig.submit(plans(urls), "looks")
        async with rig.working(site_worker(rig, [site], RulesByHost())):
            await until(lambda: set(rig.states(job).values()) == {"waiting"})
            assert not site.visits(host="b.example")
            await rig.ledger.pause_lane(f"b.example:{site.port}", paused=False)
            await until(lambda: rig.job(job)["state"] == "completed")
        assert len(site.visits(host="a.example")) == 3


async def test_a_lane_that_is_paused_gets_no_more_redirects_within_seconds(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        target = site.url("/page/1", host="b.example")
        urls = [site.url(f"/redirect?to={target}&n={n}", host="a.example") for n in range(200)]
        await rig.submit(plans(urls), "looks")
        rules = RulesByHost(replace(SITE, rate=20, per=1.0, burst=1))
        async with rig.working(site_worker(rig, [site], rules)):
            await site.arrived(20)
            await rig.ledger.pause_lane(f"b.example:{site.port}", paused=True)
            paused = time.monotonic()
            await until(lambda: time.monotonic() - paused > 4.0)
        late = [v for v in site.visits(host="b.example") if v.at > paused + 2.0]
        assert not late


async def test_redirects_keep_to_the_places_of_the_lane_that_they_lead_to(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        target = site.url("/slow?seconds=0.3", host="b.example").replace("?", "%3F").replace("=", "%3D")
        urls = [site.url(f"/redirect?to={target}&n={n}", host="a.example") for n in range(8)]
        job = await rig.submit(plans(urls), "looks")
        rules = RulesByHost(SITE, b_example=replace(SITE, concurrency=2))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert rig.job(job)["completed"] == 8
        assert most_in_flight(site.visits("/slow")) <= 2


async def test_a_crowd_of_slow_lanes_leaves_room_for_another(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        slow = replace(SITE, rate=1, per=30.0, burst=1)
        rules = RulesByHost(SITE, a_example=slow, b_example=slow)
        for host in ("a.example", "b.example"):
            await rig.submit(plans(site.url(f"/page/{n}", host=host) for n in range(1, 6)), "looks")
        worker = site_worker(rig, [site], rules, capacity=2)
        async with rig.working(worker):
            await site.arrived(2)
            job = await rig.submit(plans([site.url("/page/9", host="c.example")]), "looks")
            await until(lambda: rig.job(job)["state"] == "completed", patience=15)


# ── the breaker ──


@pytest.mark.parametrize("outage", [Outage.ERROR, Outage.RESET])
async def test_an_outage_opens_the_breaker_and_one_probe_heals_it__SC_8(open_rig: OpenRig, outage: Outage) -> None:
    async with SandboxSite() as site:
        await site.fail(outage)
        rig = await open_rig(looks())
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 41)), "looks")
        lane = replace(SITE, rate=40, per=1.0, burst=1, breaker=BREAKER, concurrency=2, retry=Retry(20, first=0.05))
        worker = site_worker(rig, [site], RulesByHost(lane))
        async with rig.working(worker):
            await site.arrived(5)
            await until(lambda: any("open" in str(r["state"]) for r in rig.tables.read("SELECT state FROM lanes")))
            seen = len(site.log)
            assert seen <= 10, "open after at most ten failures"
            await site.arrived(seen + 2)
            probes = [v.at for v in site.log[seen:]]
            assert probes[1] - probes[0] >= BREAKER.cooldown * 0.9, "one probe at a time"
            await site.fail(None)
            await until(lambda: rig.job(job)["state"] == "completed")
        assert rig.job(job)["failed"] == 0


async def test_a_step_that_asks_for_it_fails_at_once_while_the_breaker_is_open__SC_P28(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        await site.fail(Outage.ERROR)
        rig = await open_rig(looks(when_open="fail"))
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), concurrency=1, retry=Retry(0))
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 31)), "looks")
        await site_worker(rig, [site], RulesByHost(lane)).run(until_idle=True)
        assert len(site.log) == 5
        assert rig.job(job)["failed"] == 30
        assert sum("left alone" in str(t["error"]) for t in rig.tasks(job).values()) == 25


async def test_a_404_a_429_and_a_503_with_retry_after_do_not_open_the_breaker__SC_8(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        answers = iter([Answer(429), Answer(503, headers=retry_after(0))] * 6)
        site.answers["/x"] = lambda _: next(answers, Answer(200, b"<p>fine</p>"))
        rig = await open_rig(looks())
        urls = [site.url("/x", host="a.example"), *(site.url(f"/none/{n}", host="a.example") for n in range(12))]
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), slow_for=0.1)
        job = await rig.submit(plans(urls[1:]), "looks")
        await site_worker(rig, [site], RulesByHost(lane)).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        states = rig.tables.read("SELECT state FROM lanes")
        assert not any('"open"' in str(row["state"]) for row in states)


async def test_an_open_breaker_survives_the_death_of_its_worker__SC_8(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        await site.fail(Outage.ERROR)
        rig = await open_rig(looks())
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), concurrency=1, retry=Retry(9, first=0.01))
        await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 9)), "looks")
        async with rig.working(site_worker(rig, [site], RulesByHost(lane))):
            await until(lambda: any("open" in str(r["state"]) for r in rig.tables.read("SELECT state FROM lanes")))
        seen = len(site.log)
        second = site_worker(rig, [site], RulesByHost(lane))
        async with rig.working(second):
            await until(lambda: second.stats.turns >= 1 or second.alive)
            await until(lambda: not second.in_flight)
        assert len(site.log) == seen, "the second worker knew that the door is shut"


async def test_a_store_that_is_away_while_a_page_is_asked_for_fails_no_task__R8(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        url = site.url(f"/redirect?to={site.url('/page/1', host='b.example')}", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        take_lane, times = rig.ledger.take_lane, iter([True])

        async def away_at_first(*given: object) -> object:
            if next(times, False):
                raise StoreUnavailable("it is away.")
            return await take_lane(*given)

        rig.ledger.take_lane = away_at_first
        worker = site_worker(rig, [site], RulesByHost())
        async with rig.working(worker):
            await until(lambda: rig.states(job)[url] == "waiting")
        assert rig.tasks(job)[url]["attempt"] == 0
        assert "away" in error(rig, job, url)


async def test_a_browser_that_crashes_is_not_the_sites_fault__SC_8(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        crashes = iter(range(6))

        def crashing(inner: Fetch) -> Fetch:
            async def fetch(request: Request) -> Response:
                if next(crashes, None) is not None:
                    raise BrowserCrashed("it died.")
                return await inner(request)

            return fetch

        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), concurrency=1, retry=Retry(20, first=0.01))
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 4)), "looks")
        await site_worker(rig, [site], RulesByHost(lane), wrap=crashing).run(until_idle=True)
        assert rig.job(job)["completed"] == 3


@pytest.mark.parametrize("short", [PoolExhausted("no browser is free."), NoHealthyProxies("no proxy is well.")])
async def test_what_we_are_short_of_ourselves_burns_no_attempt__SC_5(
    open_rig: OpenRig, short: Short, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wait in ("SHORT_WAIT", "POOL_WAIT"):
        monkeypatch.setattr(f"forager.engine.attempt.{wait}", 0.1)
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        times = iter(range(5))

        def short_at_first(inner: Fetch) -> Fetch:
            async def fetch(request: Request) -> Response:
                if next(times, None) is not None:
                    raise short
                return await inner(request)

            return fetch

        url = site.url("/page/1", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        lane = replace(SITE, breaker=Breaker(10, 3, 60.0), retry=Retry(0))
        await site_worker(rig, [site], RulesByHost(lane), wrap=short_at_first).run(until_idle=True)
        assert rig.states(job)[url] == "completed"
        assert rig.tasks(job)[url]["attempt"] == 1


# ── hours, and rules that change ──


class Shifted:
    """A clock that runs as fast as any, but elsewhere in the day."""

    def __init__(self, start: datetime) -> None:
        self._ahead = start - datetime.now(UTC)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_outside_its_hours_a_lane_is_left_alone_until_they_begin__SC_P24(open_rig: OpenRig) -> None:
    opens = datetime.now(UTC).replace(hour=6, minute=0, second=0, microsecond=0) + timedelta(days=1)
    async with SandboxSite() as site:
        rig = await open_rig(looks(), clock=Shifted(opens - timedelta(seconds=1.5)))
        if "Postgres" in type(rig.ledger).__name__:
            pytest.skip("its clock is the database's own, which no test can move")
        job = await rig.submit(plans([site.url("/page/1", host="a.example")]), "looks")
        began = time.monotonic()
        await site_worker(rig, [site], RulesByHost(replace(SITE, hours=Hours(6, 22)))).run(until_idle=True)
        assert rig.job(job)["state"] == "completed"
        assert site.log[0].at - began >= 1.0


async def test_new_rules_hold_without_a_restart__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        rules = RulesByHost(replace(SITE, rate=2, per=1.0, burst=1))
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 61)), "looks")
        worker = site_worker(rig, [site], rules)
        async with rig.working(worker):
            await site.arrived(3)
            rules.every = replace(SITE, rate=100, per=1.0, burst=10)
            worker.adopt_rules()
            began = time.monotonic()
            await until(lambda: rig.job(job)["state"] == "completed")
            assert time.monotonic() - began < 10, "at the old rate it would have taken half a minute"


# ── auto ──


def rendering(asked: list[Request]) -> Callable[[Fetch], Fetch]:
    """Stands where the browser will: what a request for it is answered with does not matter here."""

    def wrap(inner: Fetch) -> Fetch:
        async def fetch(request: Request) -> Response:
            asked.append(request)
            response = await inner(replace(request, render="http"))
            return replace(response, rendered=True, looks="page") if request.render == "browser" else response

        return fetch

    return wrap


@pytest.mark.parametrize(
    ("path", "ways"),
    [("/page/1", ["http"]), ("/shell", ["http", "browser"]), ("/challenge", ["http", "browser"])],
)
async def test_auto_goes_to_a_browser_only_when_the_page_needs_one__SC_3(
    open_rig: OpenRig, path: str, ways: list[str]
) -> None:
    async with SandboxSite() as site:
        rig, asked = await open_rig(looks()), []  # type: ignore[var-annotated]
        job = await rig.submit(plans([site.url(path, host="a.example")], render="auto"), "looks")
        await site_worker(rig, [site], RulesByHost(), wrap=rendering(asked)).run(until_idle=True)
        assert [request.render for request in asked] == ways
        assert rig.job(job)["state"] == "completed"
        assert len(site.visits(path)) == len(ways), "each of the two is paid for"


@pytest.mark.parametrize("status", [403, 429, 503])
async def test_a_challenge_before_the_browser_neither_slows_nor_opens_the_breaker__SC_3(
    open_rig: OpenRig, status: int
) -> None:
    async with SandboxSite() as site:
        site.answers["/x"] = challenge = replace(usual_challenge(), status=status, headers=retry_after(60))
        assert looks_like(status, challenge.headers, challenge.body) == "challenge"
        rig, asked = await open_rig(looks()), []  # type: ignore[var-annotated]

        def wrap(inner: Fetch) -> Fetch:
            async def fetch(request: Request) -> Response:
                asked.append(request.render)
                if request.render == "browser":
                    return Response(request.url, 200, {}, b"<p>in</p>", datetime.now(UTC), 5, rendered=True)
                return await inner(request)

            return fetch

        urls = [site.url(f"/x?n={n}", host="a.example") for n in range(12)]
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0))
        job = await rig.submit(plans(urls, render="auto"), "looks")
        await site_worker(rig, [site], RulesByHost(lane), wrap=wrap).run(until_idle=True)
        assert rig.job(job)["completed"] == 12
        assert asked.count("browser") == 12


async def test_a_task_that_waits_for_its_lane_in_the_middle_does_not_ask_again(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        first, second = site.url("/page/1", host="a.example"), site.url("/page/2", host="a.example")
        job = await rig.submit(plans([first], then=second), "looks")
        await site_worker(rig, [site], RulesByHost(replace(SITE, rate=1, per=6.0, burst=1))).run(until_idle=True)
        assert rig.states(job)[first] == "completed"
        assert [v.path for v in site.log] == ["/page/1", "/page/2"]
        assert rig.tasks(job)[first]["attempt"] == 1
