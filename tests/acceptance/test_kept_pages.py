"""kill -9 while pages are stored: nothing that was committed is lost, no segment is damaged, nothing is done twice."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from forager.core.clock import SystemClock
from forager.core.storage import is_blob
from forager.sandbox.site import SandboxSite
from forager.storage.pages.local import LocalBlobs
from forager.storage.pages.segments import Segments
from tests.support.engine import open_sqlite
from tests.support.kept_pages import KeepingOptions, keep_plans, keeping

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

PAGES, KILLS, SEED = 240, 4, 20260304


async def test_a_kill_in_the_middle_of_storing_loses_and_damages_nothing(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    async with SandboxSite() as site:
        options = KeepingOptions(str(tmp_path), site.url())
        urls = [site.url(f"/page/{n}") for n in range(1, PAGES + 1)]
        rig = await open_sqlite(tmp_path, [keeping()])
        await rig.submit(keep_plans(urls), "keeping")
        await rig.close()
        hits = 0
        for kill in range(1, KILLS + 1):
            process = await asyncio.create_subprocess_exec(*options.command, stdout=subprocess.DEVNULL)
            wanted = PAGES * kill // (KILLS + 2)
            async with asyncio.timeout(60):
                while len(site.log) < wanted and process.returncode is None:
                    await asyncio.sleep(0.002)
            await asyncio.sleep(dice.random() * 0.03)
            hits += process.returncode is None
            process.kill()
            await process.wait()
        last = await asyncio.create_subprocess_exec(*options.command)
        assert await asyncio.wait_for(last.wait(), 120) == 0
        rig = await open_sqlite(tmp_path, [keeping()])
        rows = rig.tables.read("SELECT * FROM kept_pages")
        states = rig.tables.read("SELECT state, COUNT(*) AS n FROM tasks GROUP BY state")
        rig.check()
        await rig.close()
        sys.stdout.write(f"{hits} of {KILLS} kills hit; {len(site.log)} requests for {PAGES} pages\n")
    assert hits >= KILLS // 2
    assert [(row["state"], row["n"]) for row in states] == [(4, 2 * PAGES)]
    assert len({row["url"] for row in rows}) == len(rows) == PAGES
    await every_page_is_readable(tmp_path / "blobs", rows)
    assert len(site.log) <= PAGES + KILLS * 20 * 2, "only pages in flight were fetched again"


async def every_page_is_readable(folder: Path, rows: list[dict[str, str]]) -> None:
    store = LocalBlobs(folder, SystemClock())
    for row in rows:
        assert is_blob(row["blob"])
        page = await store.read(row["blob"])
        assert page.url == row["url"]
        assert page.body.decode() == row["reread"]
    await store.close()
    segments = Segments(folder)
    for number in segments.numbers():
        end = 0
        for place, _ in segments.frames(number):
            assert place.offset == end, "no torn frame was left behind"
            end = place.offset + place.length
        assert end == segments.size(number)
    segments.close()
