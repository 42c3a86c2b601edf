"""Sites that fail, and what is our own fault: the breaker, a store that is away, a browser or a proxy that is short."""

from dataclasses import replace
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from forager.core.errors import BrowserCrashed, NoHealthyProxies, PoolExhausted, Retry, Short, StoreUnavailable
from forager.core.http import Fetch, Request, Response
from forager.core.pipeline import Breaker
from forager.engine.work.worker import Worker
from forager.sandbox.scrape_pages import SiteAnswer, retry_after
from forager.sandbox.site import Outage, SandboxSite
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import EngineRig, until
from tests.support.sites import BREAKER, SITE, RulesByHost, looks, plans, site_worker

pytestmark = pytest.mark.one_store  # breakers are kept by the engine


@pytest.mark.parametrize("outage", [Outage.ERROR, pytest.param(Outage.RESET, marks=pytest.mark.chaos)])
async def test_an_outage_opens_the_breaker_and_one_probe_heals_it__SC_8(open_rig: OpenRig, outage: Outage) -> None:
    async with SandboxSite() as site:
        await site.fail(outage)
        rig = await open_rig(looks())
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 41)), "looks")
        lane = replace(SITE, rate=40, per=1.0, burst=1, breaker=BREAKER, concurrency=2, retry=Retry(20, first=0.05))
        worker = site_worker(rig, [site], RulesByHost(lane))
        with capture_logs() as lines:
            await _break_and_heal(rig, site, worker, job)
        assert rig.job(job)["failed"] == 0
        turns = [line for line in lines if line["event"].startswith("breaker_")]
        assert [line["event"] for line in turns][:: len(turns) - 1] == ["breaker_opened", "breaker_closed"]
        assert all(line["lane"].startswith("a.example") for line in turns)


async def _break_and_heal(rig: EngineRig, site: SandboxSite, worker: Worker, job: UUID) -> None:
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


async def test_a_step_that_declares_it_fails_at_once_while_the_breaker_is_open__SC_P28(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        await site.fail(Outage.ERROR)
        rig = await open_rig(looks(when_open="fail"))
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), concurrency=1, retry=Retry(0))
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 31)), "looks")
        await site_worker(rig, [site], RulesByHost(lane)).run(until_idle=True)
        assert len(site.log) == 5
        assert rig.job(job)["failed"] == 30
        assert sum("no request is sent" in str(t["error"]) for t in rig.tasks(job).values()) == 25


async def test_a_404_a_429_and_a_503_with_retry_after_do_not_open_the_breaker__SC_8(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        answers = iter([SiteAnswer(429), SiteAnswer(503, headers=retry_after(0))] * 6)
        site.answers["/x"] = lambda _: next(answers, SiteAnswer(200, b"<p>fine</p>"))
        rig = await open_rig(looks())
        urls = [site.url("/x", host="a.example"), *(site.url(f"/none/{n}", host="a.example") for n in range(12))]
        lane = replace(SITE, breaker=Breaker(10, 5, 60.0), slow_for=0.1)
        job = await rig.submit(plans(urls[1:]), "looks")
        await site_worker(rig, [site], RulesByHost(lane)).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        states = rig.tables.read("SELECT state FROM lanes")
        assert not any('"open"' in str(row["state"]) for row in states)


@pytest.mark.one_store(False)
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
            await until(lambda: second.stats.transactions >= 1 or second.alive)
            await until(lambda: not second.in_flight)
        assert len(site.log) == seen, "the second worker had the open breaker"


@pytest.mark.one_store(False)
async def test_an_outage_of_the_store_during_a_request_fails_no_task__R8(open_rig: OpenRig) -> None:
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
        assert "away" in str(rig.tasks(job)[url]["error"])


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
        monkeypatch.setattr(f"forager.engine.work.attempt.{wait}", 0.1)
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
