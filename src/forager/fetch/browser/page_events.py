"""What is heard from a page while it is visited: complaints, pop-ups, that all is loaded, that its process died."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from forager.core.errors import ForagerError
from forager.fetch.browser.failures import page_crashed, quietly

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, ConsoleMessage, Page

MOST_CONSOLE = 50
LONGEST_LINE = 500
BLOCKED = "net::ERR_BLOCKED_BY_CLIENT"  # what we dropped ourselves is not a complaint of the page


class Witness:
    """Listens to one page. `broken` is called when its process dies."""

    def __init__(self, broken: Callable[[ForagerError], None]) -> None:
        self.console: list[str] = []
        self.loaded = asyncio.Event()
        """Everything that the page asked for at first is there."""
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
        """Dialogs need no such care: the driver dismisses them when nobody listens."""
        self.note("a pop-up was closed")
        task = asyncio.ensure_future(quietly(popup.close()))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
