"""Browser visits in tests: a fetcher on real Chromium through the real gate, allowed to reach the test's own sites."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from forager.core.clock import SystemClock
from forager.core.http import Action, Request
from forager.fetch.browser.chromium import ChromiumBrowser, ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.browser.gate import Gate
from forager.fetch.browser.pool import PoolLimits
from forager.fetch.guard import EgressGuard


class Watched(ChromiumLauncher):
    """Remembers every browser that it started."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.started: list[ChromiumBrowser] = []

    async def launch(self, gone: Any) -> ChromiumBrowser:
        browser = await super().launch(gone)
        self.started.append(browser)
        return browser


@asynccontextmanager
async def browsing(
    allow: Sequence[str], *, pids: Path | None = None, launcher: ChromiumLauncher | None = None, **named: Any
) -> AsyncIterator[BrowserFetcher]:
    """`async with browsing([site.endpoint]) as fetch:`; limits of the pool and all else can be given."""
    guard = EgressGuard(allow)
    limits = PoolLimits(**{name: named.pop(name) for name in list(named) if name in PoolLimits.__dataclass_fields__})
    clock = named.pop("clock", None) or SystemClock()
    fetch = BrowserFetcher(guard, Gate(guard), clock, launcher or ChromiumLauncher(pids=pids), limits=limits, **named)
    try:
        yield fetch
    finally:
        await fetch.close()


def allow_only(fetch: BrowserFetcher, *endpoints: str) -> None:
    """Let a fetcher that several tests share visit these endpoints from now on, and no others. Starting a browser takes
    longer than most visits."""
    vars(fetch._guard).update(vars(EgressGuard(endpoints)))


def visit(url: str, *script: Action, **named: Any) -> Request:
    """A request for a browser that does not dawdle between actions."""
    return Request(url, render="browser", script=script, delay=named.pop("delay", (0.0, 0.0)), **named)
