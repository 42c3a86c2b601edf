"""Whose defaults hold in a lane: those of the pipelines that use it, and where several do, the slower."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from forager.core.pipeline import Hours, Lane, Pipeline, step
from forager.core.task import Plan
from forager.engine.lanes import lane as lanes_lane
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.rules.precedence import EVERY_SITE, Politeness, ground
from forager.engine.work.worker import Worker
from forager.sandbox.site import SandboxSite, most_in_flight, most_starts
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import EngineRig, until
from tests.support.sites import Look, Nothing, look, looks, plans, site_worker

HOST = "a.example"
QUICK = ground(tokens=1_000, interval=1.0, concurrency=20).model_copy(update={"respect_robots_txt": False})
NOT_NOW = Hours((datetime.now(UTC) + timedelta(hours=2)).hour, (datetime.now(UTC) + timedelta(hours=3)).hour)


class SlowLook(Look):
    kind: ClassVar[str] = "slow-look"


def careful(lane: Lane) -> Pipeline:
    """Another pipeline that looks at pages, with a default of its own for all sites."""
    return Pipeline("careful", Nothing, lambda _: (), (step(SlowLook, look),), records=(), lanes=(lane,))


class Ruled:
    """`LaneRules` by the real order of precedence."""

    def __init__(self, *pipelines: Pipeline) -> None:
        self.politeness = Politeness(lanes={each.name: each.lanes for each in pipelines}, ground=QUICK)

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        return self.politeness.lane_for(name, used_by)

    def lane_name(self, url: str) -> str:
        return self.politeness.lane_of(url)


def worker_of(rig: EngineRig, site: SandboxSite, *pipelines: Pipeline) -> Worker:
    return site_worker(rig, [site], Ruled(*pipelines))  # type: ignore[arg-type]


def lane_of(worker: Worker) -> LaneRun:
    (lane,) = worker._lanes
    return lane


async def test_the_default_of_one_pipeline_does_not_slow_the_requests_of_another(open_rig: OpenRig) -> None:
    other = careful(Lane(EVERY_SITE, rate=1, per=3_600.0, concurrency=1, hours=NOT_NOW, site=True))
    async with SandboxSite() as site:
        rig = await open_rig(looks(), other)
        job = await rig.submit(plans(site.url(f"/page/{n}", host=HOST) for n in range(1, 31)), "looks")
        await asyncio.wait_for(worker_of(rig, site, looks(), other).run(until_idle=True), 60)
        assert rig.job(job)["completed"] == 30


async def test_a_default_holds_from_the_first_request_of_its_own_pipeline_on(open_rig: OpenRig) -> None:
    slow = careful(Lane(EVERY_SITE, rate=2, per=1.0, concurrency=1, site=True))
    async with SandboxSite() as site:
        rig = await open_rig(looks(), slow)
        tasks = [SlowLook(url=site.url(f"/page/{n}", host=HOST)) for n in range(1, 7)]
        await rig.submit([Plan(task) for task in tasks], "careful")
        await asyncio.wait_for(worker_of(rig, site, looks(), slow).run(until_idle=True), 60)
        assert len(site.log) == 6
        assert most_in_flight(site.log) == 1
        assert most_starts(site.log, 1.0) <= 2


async def test_where_two_pipelines_use_a_site_the_slower_holds_for_both_and_only_as_long_as_both_do__SC_7(
    open_rig: OpenRig,
) -> None:
    slow = careful(Lane(EVERY_SITE, rate=4, per=1.0, site=True))
    async with SandboxSite() as site:
        rig = await open_rig(looks(), slow)
        worker = worker_of(rig, site, looks(), slow)
        quick = await rig.submit(plans(site.url(f"/page/{n}", host=HOST) for n in range(1, 9)), "looks")
        async with rig.working(worker):
            await until(lambda: rig.job(quick)["completed"] == 8)
            lane = lane_of(worker)
            assert lane.policy.rate == 1_000
            slowly = await rig.submit([Plan(SlowLook(url=site.url("/page/50", host=HOST)))], "careful")
            await until(lambda: rig.job(slowly)["completed"] == 1)
            assert lane.policy.rate == 4
            began = len(site.log)
            again = await rig.submit(plans(site.url(f"/page/{n}", host=HOST) for n in range(11, 21)), "looks")
            await until(lambda: rig.job(again)["completed"] == 10)
            assert most_starts(site.log[began:], 1.0) <= 4
            assert sorted(lane.state()["used_by"]) == ["careful", "looks"]
            lane.users._last["careful"] -= lanes_lane.USED_FOR + 1
            worker._lanes.states()
            assert lane.policy.rate == 1_000
            assert lane.users.names == {"looks"}


async def test_the_next_owner_has_the_list_of_users_of_the_lane(open_rig: OpenRig) -> None:
    slow = careful(Lane(EVERY_SITE, rate=4, per=1.0, site=True))
    async with SandboxSite() as site:
        rig = await open_rig(looks(), slow)
        job = await rig.submit([Plan(SlowLook(url=site.url("/page/1", host=HOST)))], "careful")
        await worker_of(rig, site, looks(), slow).run(until_idle=True)
        await rig.submit(plans([site.url("/page/2", host=HOST)]), "looks")
        assert rig.job(job)["completed"] == 1
        worker = worker_of(rig, site, looks(), slow)
        async with rig.working(worker):
            await until(lambda: list(worker._lanes))
            assert lane_of(worker).policy.rate == 4


async def test_a_guest_brings_the_rules_of_its_own_pipeline(open_rig: OpenRig) -> None:
    """A page of one site leads to another site: the second request is in the other site's lane."""
    slow = careful(Lane(EVERY_SITE, rate=4, per=1.0, site=True))
    async with SandboxSite() as site:
        rig = await open_rig(looks(), slow)
        task = SlowLook(url=site.url("/page/1", host=HOST), then=site.url("/page/2", host="b.example"))
        await rig.submit([Plan(task)], "careful")
        worker = worker_of(rig, site, looks(), slow)
        async with rig.working(worker):
            await until(lambda: len(site.log) == 2)
            assert {lane.policy.rate for lane in worker._lanes} == {4}
