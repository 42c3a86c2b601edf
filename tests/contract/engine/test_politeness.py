"""The engine against a web site: which rules are in force and what waits, judged by the site's own log."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forager.core.clock import SystemClock
from forager.core.pipeline import Hours
from forager.core.task import Plan
from forager.sandbox.scrape_pages import SiteAnswer, retry_after
from forager.sandbox.site import SandboxSite, most_starts
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import until
from tests.support.sites import SITE, Look, RulesByHost, looks, plans, site_worker

pytestmark = pytest.mark.one_store  # rates, hours and robots.txt are kept by the engine

# ── robots.txt ──


async def test_a_url_that_robots_txt_forbids_is_skipped_with_its_remedy_and_never_requested__SC_7(
    open_rig: OpenRig,
) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nDisallow: /page/2")
        rig = await open_rig(looks())
        urls = [site.url(f"/page/{n}", host="a.example") for n in (1, 2, 3)]
        job = await rig.submit(plans(urls), "looks")
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, robots=True)), robots=True)
        await worker.run(until_idle=True)
        assert list(rig.states(job).values()) == ["completed", "skipped", "completed"]
        assert "forager lanes set a.example" in str(rig.tasks(job)[urls[1]]["error"])
        assert [v.path for v in site.log].count("/robots.txt") == 1
        assert not site.visits("/page/2")


async def test_a_lane_without_robots_txt_rules_reads_no_robots_txt(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.set_robots("User-agent: *\nDisallow: /")
        rig = await open_rig(looks())
        job = await rig.submit(plans([site.url("/page/1", host="a.example")]), "looks")
        await site_worker(rig, [site], RulesByHost(), robots=True).run(until_idle=True)
        assert rig.job(job)["state"] == "completed"
        assert not site.visits("/robots.txt")


@pytest.mark.one_store(False)
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


# ── requests of the site to slow down ──


@pytest.mark.one_store(False)
@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_obeyed_and_burns_no_attempt__SC_7(open_rig: OpenRig, as_date: bool) -> None:
    async with SandboxSite() as site:
        wait = 3.0 if as_date else 1.0  # a date has whole seconds only
        fine = SiteAnswer(200, b"<p>fine</p>")
        site.answers["/x"] = lambda _: (
            SiteAnswer(429, headers=retry_after(wait, date=as_date)) if len(site.log) == 1 else fine
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
        once = iter([SiteAnswer(429)])
        site.answers["/page/1"] = lambda _: next(once, SiteAnswer(200, b"<p>fine</p>"))
        rig = await open_rig(looks())
        await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 25)), "looks")
        rules = RulesByHost(replace(SITE, rate=20, per=1.0, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert most_starts(site.log, 1.0) <= 20
        assert most_starts([v for v in site.log if v.at > site.log[0].at + 1.1], 1.0) <= 10


# ── hours, and rules that change ──


class Shifted(SystemClock):
    """A clock that runs as fast as any, but elsewhere in the day."""

    def __init__(self, start: datetime) -> None:
        super().__init__()
        self._ahead = start - super().now()

    def now(self) -> datetime:
        return super().now() + self._ahead


async def test_outside_its_hours_a_lane_is_left_alone_until_they_begin__SC_P24(open_rig: OpenRig) -> None:
    opens = datetime.now(UTC).replace(hour=6, minute=0, second=0, microsecond=0) + timedelta(days=1)
    async with SandboxSite() as site:
        began = time.monotonic()
        rig = await open_rig(looks(), clock=Shifted(opens - timedelta(seconds=1.5)))
        if "Postgres" in type(rig.ledger).__name__:
            pytest.skip("its clock is the database's own, which no test can move")
        job = await rig.submit(plans([site.url("/page/1", host="a.example")]), "looks")
        await site_worker(rig, [site], RulesByHost(replace(SITE, hours=Hours(6, 22)))).run(until_idle=True)
        assert rig.job(job)["state"] == "completed"
        assert site.log[0].at - began >= 1.5


async def test_new_rules_hold_without_a_restart__SC_7(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        rules = RulesByHost(replace(SITE, rate=1, per=600.0, burst=1))
        job = await rig.submit(plans(site.url(f"/page/{n}", host="a.example") for n in range(1, 61)), "looks")
        worker = site_worker(rig, [site], rules)
        async with rig.working(worker):
            await site.arrived(1)
            rules.every = replace(SITE, rate=100, per=1.0, burst=10)
            worker.adopt_rules()
            await until(lambda: rig.job(job)["state"] == "completed")  # at the old rate: after ten hours


# ── order ──


@pytest.mark.parametrize(
    ("count", "robots", "rule"),
    [
        (8, "User-agent: *\nAllow: /", {"rate": 4, "per": 2.0, "burst": 1}),
        (5, "User-agent: *\nAllow: /", {"rate": 2, "per": 5.2, "burst": 2}),  # longer than a task waits for its lane
        (8, "User-agent: *\nAllow: /", {"delay": (0.1, 0.6)}),
        (8, "User-agent: *\nCrawl-delay: 1", {"rate": 10, "per": 1.0, "burst": 5, "crawl_delay": True}),
        (5, "User-agent: *\nCrawl-delay: 2", {"crawl_delay": True}),
    ],
    ids=["rate", "slow rate", "random pause", "crawl-delay with a burst", "crawl-delay"],
)
async def test_a_rate_limited_lane_sends_first_in_first_out__SC_7(
    open_rig: OpenRig, count: int, robots: str, rule: dict[str, Any]
) -> None:
    """All tasks are leased before the first robots.txt is read, and some wait for longer than a task waits inside."""
    async with SandboxSite() as site:
        site.set_robots(robots)
        rig = await open_rig(looks())
        pages = [f"/page/{n}" for n in range(1, count + 1)]
        job = await rig.submit(plans([site.url(page, host="a.example") for page in pages]), "looks")
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, robots=True, **rule)), robots=True)
        async with asyncio.timeout(120):
            await worker.run(until_idle=True)
        assert rig.job(job)["completed"] == len(pages)
        assert [visit.path for visit in site.log] == ["/robots.txt", *pages]


async def test_a_second_request_of_a_task_comes_before_the_tasks_behind_it__SC_7(open_rig: OpenRig) -> None:
    """The first two pages leave at once; all others are in the line when the first two request their second page."""
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        several = [
            Plan(Look(url=site.url(f"/{n}/a", host="a.example"), then=site.url(f"/{n}/b", host="a.example")))
            for n in (1, 2, 3, 4)
        ]
        await rig.submit(several, "looks")
        worker = site_worker(rig, [site], RulesByHost(replace(SITE, rate=2, per=2.0, burst=2, concurrency=4)))
        async with asyncio.timeout(120):
            await worker.run(until_idle=True)
        seen = [visit.path for visit in site.log]
        assert [path for path in seen if path.endswith("b")] == ["/1/b", "/2/b", "/3/b", "/4/b"]
        assert seen.index("/1/b") < seen.index("/4/a"), seen
