"""Real Chromium under real faults: killed browsers, a killed program, wear, and thousands of pages."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from forager.core.errors import BrowserCrashed
from forager.core.http import WaitFor
from forager.fetch.browser import chromium as browser_chromium
from forager.fetch.browser import visit as browser_visit
from forager.fetch.browser.chromium import ChromiumLauncher
from tests.support.chaos import Dice
from tests.support.pages import Site
from tests.support.time_limits import assert_soon
from tests.support.visits import Watched, browsing, visit

pytestmark = [pytest.mark.usefixtures("chromium"), pytest.mark.acceptance]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as running:
        yield running


async def until_gone(processes: list[browser_chromium.Process], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while any(process.is_alive for process in processes):
            await asyncio.sleep(0.02)


async def until_seen_off(processes: list[browser_chromium.Process]) -> None:
    """Ended and waited for by their parent: none is a zombie. What lost its parent is the machine's to see off."""
    async with asyncio.timeout(PATIENCE):
        while any(psutil.pid_exists(process.pid) for process in processes):
            await asyncio.sleep(0.05)


async def test_a_crash_is_noticed_within_a_second_and_the_next_visit_works__SC_5(site: Site) -> None:
    launcher = Watched()
    async with browsing([site.endpoint], launcher=launcher) as fetch:
        crashes = 0

        async def noticed() -> float:
            nonlocal crashes
            crashes += 1
            going = asyncio.create_task(fetch(visit(site.url("/hang"))))
            async with asyncio.timeout(PATIENCE):
                while site.paths().count("/hang") < crashes:
                    await asyncio.sleep(0.01)
            pid = launcher.started[-1].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            with pytest.raises(BrowserCrashed, match="died"):
                await going
            return time.monotonic() - killed

        await assert_soon(noticed, 1.0)
        assert (await fetch(visit(site.url("/")))).status == 200
        assert fetch.stats().crashed_count == crashes


@pytest.mark.chaos  # it takes as long as a browser is given
async def test_a_browser_that_stops_answering_is_ended__SC_5(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_visit, "OPEN_TIMEOUT", 10.0)
    launcher = Watched()
    async with browsing([site.endpoint], launcher=launcher, navigation_timeout=1) as fetch:
        await fetch(visit(site.url("/")))
        stuck = browser_chromium.Process.of(launcher.started[0].pid or 0)
        assert stuck is not None
        os.kill(stuck.pid, signal.SIGSTOP)
        with pytest.raises(BrowserCrashed):
            await fetch(visit(site.url("/")))
        await until_gone([stuck])
        assert (await fetch(visit(site.url("/")))).status == 200


async def test_a_driver_that_dies_is_replaced_with_its_browsers__SC_5(site: Site) -> None:
    launcher = Watched()
    async with browsing([site.endpoint], launcher=launcher) as fetch:
        await fetch(visit(site.url("/")))
        driver = psutil.Process(launcher.started[0].pid).parent()
        assert driver is not None
        driver.kill()
        async with asyncio.timeout(PATIENCE):
            await launcher.started[0].gone.wait()
        assert (await fetch(visit(site.url("/")))).status == 200
        assert len(launcher.started) == 2


async def test_a_real_browser_is_replaced_after_its_pages__SC_P12(site: Site) -> None:
    launcher = Watched()
    async with browsing([site.endpoint], launcher=launcher, size=1, most=1, page_limit=3) as fetch:
        for _ in range(7):
            assert (await fetch(visit(site.url("/")))).status == 200
        assert len(launcher.started) == 3
        assert fetch.stats().recycled_count == 2
        first = [browser_chromium.Process.of(browser.pid or 0) for browser in launcher.started[:2]]
        assert first == [None, None]


async def test_no_browser_outlives_its_program_even_when_that_is_killed__SC_5(site: Site, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.browser_program", str(tmp_path), site.url("/hang")]
    program = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    assert program.stdout is not None
    browser = browser_chromium.Process.of(int(await asyncio.wait_for(program.stdout.readline(), PATIENCE)))
    assert browser is not None
    tree = await asyncio.to_thread(browser_chromium.family, browser)
    assert list(tmp_path.glob("browser-*.json"))
    program.kill()
    await program.wait()
    await until_gone(tree)
    assert browser_chromium.end_orphans(tmp_path) == 0
    assert list(tmp_path.glob("*")) == []


async def test_a_browser_of_a_dead_program_that_still_lives_is_ended_at_the_next_start__SC_5(
    site: Site, tmp_path: Path, chromium: Path
) -> None:
    left = _left_behind(chromium, "deadbeef")
    stranger = _left_behind(chromium, "another")
    dead = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; sys.stdin.read()", stdin=subprocess.PIPE
    )
    owner = browser_chromium.Process.of(dead.pid)
    assert owner is not None
    living = browser_chromium.record(tmp_path, stranger, "another")  # its program, this one, lives
    for process, mark in (
        (left, "deadbeef"),
        (browser_chromium.Process(stranger.pid, stranger.started + 1), "another"),
    ):
        path = browser_chromium.record(tmp_path, process, mark)
        _owned_by(path, owner)
    dead.kill()
    await dead.wait()
    try:
        async with browsing([site.endpoint], pids=tmp_path) as fetch:
            await fetch(visit(site.url("/")))
            await until_gone([left])
            assert stranger.is_alive
            assert living.exists()
    finally:
        for process in (left, stranger):
            browser_chromium.kill_tree(process)


def _owned_by(path: Path, owner: browser_chromium.Process) -> None:
    entry = json.loads(path.read_text())
    entry["owner"] = {"pid": owner.pid, "started": owner.started}
    path.write_text(json.dumps(entry))


def _left_behind(chromium: Path, mark: str) -> browser_chromium.Process:
    """A browser that nobody drives."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
        f"{browser_chromium.MARK}{mark}",
    ]
    started = subprocess.Popen(
        [chromium, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until = time.monotonic() + PATIENCE
    while (found := browser_chromium.find_marked(mark)) is None:  # its command line is empty for a moment
        assert time.monotonic() < until
    assert found.pid == started.pid
    return found


@pytest.mark.parametrize("kills", [pytest.param(6, id="some"), pytest.param(50, id="fifty", marks=pytest.mark.chaos)])
async def test_killing_browsers_under_load_loses_no_visit_and_leaves_no_zombie__SC_5(site: Site, kills: int) -> None:
    dice, launcher = Dice(), Watched()
    seen: set[browser_chromium.Process] = set()
    done = crashes = fired = 0
    stop = asyncio.Event()

    async def work() -> None:
        nonlocal done, crashes
        while not stop.is_set():
            try:
                response = await fetch(visit(site.url("/js"), WaitFor("#made")))
                assert b'<h1 id="made">' in response.body
                done += 1
            except BrowserCrashed:
                crashes += 1

    async with browsing([site.endpoint], launcher=launcher, size=3, most=3) as fetch:
        workers = [asyncio.create_task(work()) for _ in range(4)]
        while fired < kills:
            target = done + 1
            async with asyncio.timeout(60):
                while done < target or not fetch.stats().in_use:
                    await asyncio.sleep(0.01 + dice.seconds(0.02))
            living = [browser for browser in launcher.started if not browser.is_gone and browser.pid]
            victim = browser_chromium.Process.of(living[dice.between(0, len(living) - 1)].pid or 0) if living else None
            if victim:
                seen.update(await asyncio.to_thread(browser_chromium.family, victim))
                os.kill(victim.pid, signal.SIGKILL)
                fired += 1
        stop.set()
        await asyncio.wait_for(asyncio.gather(*workers), 60)
        stats = fetch.stats()
    assert fired == kills
    assert 0 < crashes <= fired  # an idle browser's death costs no visit
    assert stats.crashed_count >= fired - 1
    assert stats.pages_processed == done + crashes
    for browser in launcher.started:
        assert browser.is_gone
    await until_gone(list(seen))
    await until_seen_off(list(seen))
    sys.stdout.write(f"{fired} kills, {done} visits done, {crashes} crashed under a visit\n")


@pytest.mark.parametrize("pages", [pytest.param(30, id="30"), pytest.param(2_000, id="2000", marks=pytest.mark.chaos)])
async def test_memory_stays_flat_over_many_pages__SC_5(site: Site, pages: int) -> None:
    """One browser that is never replaced for its pages: what a visit leaves behind would add up in it, or in us."""
    launcher, own = Watched(), psutil.Process()
    async with browsing([site.endpoint], launcher=launcher, size=1, most=1, page_limit=pages * 2) as fetch:
        for _ in range(10):
            await fetch(visit(site.url("/loads")))
        browser_before, own_before = launcher.started[0].memory(), own.memory_info().rss
        for _ in range(pages):
            await fetch(visit(site.url("/loads")))
            site.seen.clear()  # what the site remembers is not ours
        browser_rise, own_rise = launcher.started[0].memory() - browser_before, own.memory_info().rss - own_before
        assert len(launcher.started) == 1
    sys.stdout.write(f"{pages} pages: browser {browser_rise >> 20:+} MB, program {own_rise >> 20:+} MB\n")
    assert browser_rise < 60 << 20
    assert own_rise < 20 << 20


async def test_a_launcher_without_its_program_names_the_remedy__SC_5(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'no good' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(BrowserCrashed, match="did not start"):
        await ChromiumLauncher(broken).launch(lambda _: None)
