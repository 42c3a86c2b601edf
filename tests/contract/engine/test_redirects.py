"""Redirects: every hop is a request of its own, in the lane of the host that it leads to, as the site's log shows."""

import time
from dataclasses import replace

import pytest

from forager.sandbox.site import SandboxSite, most_in_flight, most_starts
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import until
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker

pytestmark = pytest.mark.one_store  # hops, lanes and robots.txt are the work of the engine


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


async def test_a_slow_lane_behind_a_redirect_is_waited_for_without_a_restart(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks(timeout=2.0))
        urls = [site.url(f"/redirect?to=/page/{n}&n={n}", host="a.example") for n in (1, 2)]
        job = await rig.submit(plans(urls), "looks")
        rules = RulesByHost(replace(SITE, rate=1, per=1.5, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        assert most_starts(site.log, 1.5) == 1
        assert len(site.log) == 4, "no redirect was requested twice, and waiting did not count as the step's time"


@pytest.mark.one_store(False)
async def test_a_redirect_that_must_wait_for_long_continues_where_it_stopped(
    open_rig: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.engine.lanes.fetch.LONGEST_TAIL", 0.2)
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        url = site.url("/redirect?to=/page/1", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        rules = RulesByHost(replace(SITE, rate=1, per=1.0, burst=1))
        await site_worker(rig, [site], rules).run(until_idle=True)
        assert rig.states(job)[url] == "completed"
        assert [v.path for v in site.log] == ["/redirect", "/page/1"]
        assert rig.tasks(job)[url]["attempt"] == 1


async def test_a_redirect_into_a_paused_lane_waits_and_repeats_no_request(open_rig: OpenRig) -> None:
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
