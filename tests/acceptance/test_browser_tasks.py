"""Tasks that need a browser, through the whole engine with a real Chromium: found out by itself, and crash-proof."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from forager.core.errors import Retry
from forager.core.http import Fetch
from forager.fetch.http.fetcher import Fetcher
from forager.sandbox.site import SandboxSite
from tests.support.engine import open_sqlite, until
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker
from tests.support.visits import Watched, browsing

LANE = replace(SITE, concurrency=4, retry=Retry(30, first=0.05))


async def test_auto_renders_what_only_scripts_fill_and_nothing_else__SC_3(chromium: Path, tmp_path: Path) -> None:
    async with SandboxSite() as site, browsing([site.endpoint]) as browser:
        rig = await open_sqlite(tmp_path, [looks()])
        urls = [site.url(path) for path in ("/page/1", "/shell")]
        job = await rig.submit(plans(urls, render="auto"), "looks")

        def both(http: Fetch) -> Fetch:
            return Fetcher(http, browser)

        await site_worker(rig, [site], RulesByHost(LANE), wrap=both).run(until_idle=True)
        assert set(rig.states(job).values()) == {"completed"}
        seen = {row["url"]: bool(row["rendered"]) for row in rig.tables.read("SELECT url, rendered FROM seen_pages")}
        assert seen == {urls[0]: False, urls[1]: True}
        await rig.close()


async def _kill_while_working(folder: Path, tasks: int, kills: int) -> None:
    random = Random(20_261_116)  # printed by the failing assertion's own line: kills are by this seed
    launcher = Watched()
    async with (
        SandboxSite(latency=0.05) as site,
        browsing([site.endpoint], launcher=launcher, size=2, most=2) as browser,
    ):
        rig = await open_sqlite(folder, [looks()])
        job = await rig.submit(plans((site.url(f"/page/{n}") for n in range(1, tasks + 1)), render="browser"), "looks")

        def both(http: Fetch) -> Fetch:
            return Fetcher(http, browser)

        killed = 0
        async with rig.working(site_worker(rig, [site], RulesByHost(LANE), wrap=both), patience=60 + 2 * tasks):
            while killed < kills and rig.job(job)["completed"] < tasks:
                await asyncio.sleep(random.uniform(0.1, 0.6))
                pids = [each.pid for each in launcher.started if each.pid and not each.is_gone]
                if pids:
                    os.kill(random.choice(pids), signal.SIGKILL)
                    killed += 1
            await until(lambda: rig.job(job)["state"] == "completed", patience=60 + tasks)
        assert killed == kills, "the faults fired"
        assert rig.job(job)["completed"] == tasks
        rig.check()
        await rig.close()


async def test_a_killed_browser_loses_no_task(chromium: Path, tmp_path: Path) -> None:
    await _kill_while_working(tmp_path, tasks=30, kills=5)


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_fifty_killed_browsers_lose_no_task(chromium: Path, tmp_path: Path) -> None:
    await _kill_while_working(tmp_path, tasks=300, kills=50)
