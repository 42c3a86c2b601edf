"""Waits that count against patience: a site that never answers does not keep its tasks for ever."""

import asyncio
from dataclasses import replace

from forager.core.pipeline import Lane
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.site import SandboxSite
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import Act, acts
from tests.support.engine import until
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker


async def test_a_site_that_answers_429_for_ever_does_not_keep_its_task(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        site.answers["/x"] = lambda _: SiteAnswer(429)
        rig = await open_rig(looks())
        url = site.url("/x", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        worker = site_worker(rig, [site], RulesByHost(), patience=0.9)
        told: list[TaskState] = []
        worker.when_settled(lambda group: told.extend(s.state for s in group))
        async with asyncio.timeout(60):
            await worker.run(until_idle=True)
        task = rig.tasks(job)[url]
        assert rig.job(job)["state"] == "failed"
        assert task["error"].startswith(
            f"a.example:{site.port} limited the rate of calls (429). Given up after 1 seconds"
        )
        assert told == [TaskState.WAITING, TaskState.FAILED]
        assert len(site.visits("/x")) == 2


async def test_the_patience_of_a_step_overrides_the_workers(open_rig: OpenRig) -> None:
    pipeline = acts(Lane("acts", rate=None))
    short = replace(pipeline, steps=tuple(replace(step, patience=0.01) for step in pipeline.steps))
    rig = await open_rig(short)
    job = await rig.submit([Plan(Act(name="never", how="snooze", flag="/nowhere/at/all"))])
    await rig.run()
    task = rig.tasks(job)["never"]
    assert task["error"].startswith("not there yet. Given up")
    assert rig.states(job) == {"never": "failed"}


async def test_a_lane_that_another_worker_has_is_waited_for_in_vain_and_a_paused_one_is_not(open_rig: OpenRig) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(looks())
        target = [site.url("/page/1", host=host) for host in ("b.example", "c.example")]
        urls = [site.url(f"/redirect?to={to}", host="a.example") for to in target]
        other = await rig.ledger.begin("other")
        await rig.ledger.take_lane(other, f"b.example:{site.port}")
        await rig.ledger.pause_lane(f"c.example:{site.port}", paused=True)
        job = await rig.submit(plans(urls), "looks")
        async with rig.working(site_worker(rig, [site], RulesByHost(SITE)), sweep=False):
            await until(lambda: set(rig.states(job).values()) == {"waiting"})
        rows = {row["key"]: row for row in rig.tables.read("SELECT key, waited, error FROM tasks")}
        assert rows[urls[0]]["waited"] >= 5_000
        assert "Another worker owns the lane" in rows[urls[0]]["error"]
        assert rows[urls[1]]["waited"] is None
        assert "is paused" in rows[urls[1]]["error"]
        await rig.ledger.end(other)
