"""Listens to a page's events during a visit: console errors, pop-ups, load, crash."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from forager.core.errors import ForagerError
from forager.fetch.browser.failures import page_crashed, quietly

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, ConsoleMessage, Page

MOST_CONSOLE = 50
LONGEST_LINE = 500
BLOCKED = "net::ERR_BLOCKED_BY_CLIENT"  # an error about a resource that we blocked is not the page's


class Witness:
    """Listens to one page. `broken` is called when its process dies."""

    def __init__(self, broken: Callable[[ForagerError], None]) -> None:
        self.console: list[str] = []
        self.loaded = asyncio.Event()
        """Set when the page's initial resources are loaded."""
        self._broken = broken
        self._closing: set[asyncio.Task[None]] = set()

    def listen(self, page: "Page", context: "BrowserContext") -> None:
        context.on("page", self._close_popup)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.note(f"uncaught: {error}"))
        page.on("crash", lambda _: self._broken(page_crashed()))
        page.on("load", lambda _: self.loaded.set())

    def note(self, line: str) -> None:
        if len(self.console) < MOST_CONSOLE:
            self.console.append(line[:LONGEST_LINE])

    def _heard(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning", "assert") and BLOCKED not in message.text:
            self.note(f"{message.type}: {message.text}")

    def _close_popup(self, popup: "Page") -> None:
        """Close a pop-up. Dialogs need no handler: the driver dismisses them if there is none."""
        self.note("a pop-up was closed")
        task = asyncio.ensure_future(quietly(popup.close()))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
