"""Pages a second through the pool, as a share of a bare Playwright loop with a fresh context per page, in the same run.

Both sides drive the same Chromium with as many browsers, load the same page of a site in another process (a document, a
stylesheet, a script, two pictures), and take its HTML. Ours does so through gate, guard, interception and fingerprint;
the bare loop does nothing else. They take turns in short slices, so that both meet the same machine. A share is taken
inside a round; memory per context is what a browser takes while a page is open, less what it takes without.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import uvloop
from playwright.async_api import Browser, async_playwright

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.site import site
from bench.support.verdict import Target, conclude, print_table
from forager.core.clock import SystemClock
from forager.core.http import Request
from forager.fetch.browser.chromium import FLAGS, MARK, ChromiumLauncher, Process, find_chromium, find_marked, memory_of
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.browser.gate import Gate
from forager.fetch.browser.pool import PoolLimits
from forager.fetch.guard import EgressGuard

BROWSERS = 2
SLICES = 6
TARGETS = (Target("share_of_bare", at_least=0.85), Target("mb_per_context", at_most=150))
# The page limit is left out: recycling a browser costs the same on both sides.
LIMITS = PoolLimits(size=BROWSERS, most=BROWSERS, page_limit=1_000_000)
# The same flags as in the pool, except for the network: the bare loop has no proxy, and looks up no name.
BARE_FLAGS = [flag for flag in FLAGS if not flag.startswith("--host-resolver-rules")]

Page = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Round:
    ours: float
    bare: float
    mb_per_context: float

    @property
    def share(self) -> float:
        return self.ours / self.bare


def main(options: Options) -> None:
    pages = 8 if options.quick else 40
    print(
        f"browser: {BROWSERS} browsers on each side, {SLICES} slices of {pages} pages a round, {options.rounds} rounds"
    )
    machine = Machine()
    rounds: list[Round] = []
    with site("page_site") as url:
        for number in range(1, options.rounds + 1):
            machine.sample()
            measured = uvloop.run(measure(url, pages))
            rounds.append(measured)
            print(
                f"  round {number}: {measured.ours:.1f} pages/s through the pool, {measured.bare:.1f} bare: "
                f"{measured.share:.3f}; {measured.mb_per_context:.0f} MB per context",
                flush=True,
            )
        machine.sample()
    report(rounds, machine)


async def measure(url: str, pages: int) -> Round:
    async with ours(url) as our_page, bare(url) as (bare_page, memory):
        for page in (our_page, bare_page):
            await run(page, BROWSERS * 3)  # everything is started and warm
        taken: dict[Page, float] = {our_page: 0.0, bare_page: 0.0}
        for number in range(SLICES):
            for page in (our_page, bare_page) if number % 2 else (bare_page, our_page):
                taken[page] += await run(page, pages)
        total = SLICES * pages
        return Round(total / taken[our_page], total / taken[bare_page], await memory())


async def run(page: Page, pages: int) -> float:
    """Return the seconds that this number of pages takes with one worker per browser."""
    left = pages

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await page()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(BROWSERS)))
    return time.perf_counter() - started


@contextlib.asynccontextmanager
async def ours(url: str) -> AsyncIterator[Page]:
    guard = EgressGuard([url.removeprefix("http://").rstrip("/")])
    fetch = BrowserFetcher(guard, Gate(guard), SystemClock(), ChromiumLauncher(), limits=LIMITS)
    request = Request(url, render="browser")

    async def page() -> None:
        response = await fetch(request)
        assert b"<h1>ran</h1>" in response.body, response.body[:500]

    try:
        yield page
    finally:
        await fetch.close()


@contextlib.asynccontextmanager
async def bare(url: str) -> AsyncIterator[tuple[Page, Callable[[], Awaitable[float]]]]:
    async with async_playwright() as driver:
        free: asyncio.Queue[Browser] = asyncio.Queue()
        browsers = [await driver.chromium.launch(**_bare_options(number)) for number in range(BROWSERS)]
        for browser in browsers:
            free.put_nowait(browser)

        async def page() -> None:
            browser = await free.get()
            context = await browser.new_context()
            opened = await context.new_page()
            await opened.goto(url, wait_until="load")
            html = await opened.content()
            await context.close()
            free.put_nowait(browser)
            assert "<h1>ran</h1>" in html

        async def memory() -> float:
            return await _mb_per_context(browsers[0], url)

        try:
            yield page, memory
        finally:
            for browser in browsers:
                await browser.close()


def _bare_options(number: int) -> dict[str, Any]:
    return {
        "executable_path": find_chromium(),
        "args": [*BARE_FLAGS, f"{MARK}bench-{number}"],
        "chromium_sandbox": False,
    }


async def _mb_per_context(browser: Browser, url: str, contexts: int = 4) -> float:
    process = await asyncio.to_thread(find_marked, "bench-0")
    assert isinstance(process, Process)
    before = await asyncio.to_thread(memory_of, process)
    opened = [await browser.new_context() for _ in range(contexts)]
    for context in opened:
        await (await context.new_page()).goto(url, wait_until="load")
    after = await asyncio.to_thread(memory_of, process)
    for context in opened:
        await context.close()
    return (after - before) / contexts / (1 << 20)


def report(rounds: list[Round], machine: Machine) -> None:
    rows = [
        ("through the pool", f"{statistics.median(each.ours for each in rounds):.1f}"),
        ("bare Playwright loop", f"{statistics.median(each.bare for each in rounds):.1f}"),
    ]
    print_table(("median of the rounds", "pages/s"), rows)
    figures = {
        "share_of_bare": round(statistics.median(each.share for each in rounds), 4),
        "mb_per_context": round(statistics.median(each.mb_per_context for each in rounds), 1),
        "pages_per_s": round(statistics.median(each.ours for each in rounds), 2),
    }
    conclude("browser", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
