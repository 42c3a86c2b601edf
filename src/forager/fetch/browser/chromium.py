"""Starts the system's Chromium through Playwright, with everything switched off that a visit does not need.

All traffic of a browser must go through the proxy of a visit's context. Traffic without a context (updates, reports,
lookups) is directed to a port on which nothing listens. Playwright is imported when the first browser starts.
"""

import asyncio
import contextlib
import importlib.util
import os
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from forager.core.errors import BrowserCrashed, Unconfigured
from forager.fetch.browser import orphans
from forager.fetch.browser.executable import find_chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

log = structlog.get_logger("forager.browser")

LAUNCH_TIMEOUT = 20.0
CLOSE_TIMEOUT = 5.0
CLOSED = "has been closed"
NOWHERE = "http://127.0.0.1:9"  # the port of the discard protocol: nothing listens, and the guard refuses it anyway
FLAGS = (
    "--disable-quic",  # UDP passes no proxy
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # only the gate resolves names
    "--block-new-web-contents",  # no pop-ups; the whole browser does not know it, there they are closed
    "--disable-gpu",
    "--disable-domain-reliability",
    "--no-pings",
    "--no-first-run",
)
STEALTH = "--disable-blink-features=AutomationControlled"  # `navigator.webdriver` is false, as in a person's browser


class ChromiumBrowser:
    """One running Chromium. `inner` is Playwright's; `gone` is set when it has ended, for whatever reason."""

    def __init__(self, inner: "Browser", process: orphans.Process | None, file: Path | None) -> None:
        self.inner = inner
        self.gone = asyncio.Event()
        self._process = process
        self._file = file

    @property
    def is_gone(self) -> bool:
        return self.gone.is_set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def memory(self) -> int:
        return orphans.memory_of(self._process) if self._process else 0

    async def close(self) -> None:
        """Close the browser, by force if necessary. Afterwards none of its processes is left."""
        process = self._process
        tree = await asyncio.to_thread(orphans.family, process) if process else []
        if not self.gone.is_set():
            with contextlib.suppress(Exception):  # ignore errors: it is killed below
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self.inner.close()
        if process:
            await asyncio.to_thread(_end, process, tree)
        if self._file:
            self._file.unlink(missing_ok=True)


class ChromiumLauncher:
    """`pids` is the folder in which running browsers are recorded. `stealth`: pages cannot see by `navigator.webdriver`
    that a program drives the browser. Other `flags`, and `extra` ones, are for tests."""

    def __init__(
        self,
        executable: str | Path | None = None,
        *,
        pids: Path | None = None,
        stealth: bool = True,
        flags: Sequence[str] = FLAGS,
        extra: Sequence[str] = (),
    ) -> None:
        self._chosen = executable
        self._pids = pids
        self._flags = (*flags, *extra, *([STEALTH] if stealth else []))
        self._driver: Playwright | None = None
        self._starting = asyncio.Lock()
        self._living = 0
        self._launchable: bool | None = None

    def can_launch(self) -> bool:
        """Whether a Chromium is installed. Readiness asks often, so the answer is cached."""
        if self._launchable is None:
            try:
                find_chromium(self._chosen)
                self._launchable = importlib.util.find_spec("playwright") is not None
            except Unconfigured:
                self._launchable = False
        return self._launchable

    async def launch(self, gone: Callable[[ChromiumBrowser], None]) -> ChromiumBrowser:
        path = find_chromium(self._chosen)
        mark = secrets.token_hex(16)
        driver = await self._running_driver()
        try:
            try:
                inner = await self._launched(driver, path, mark)
            except Exception as error:
                if self._living or CLOSED not in str(error):
                    raise
                driver = await self._another_driver(driver)  # it may have died, and all browsers with it
                inner = await self._launched(driver, path, mark)
        except Exception as error:  # noqa: BLE001 - any error of the driver means that the browser did not start
            raise BrowserCrashed(_why(path, error)) from None
        return await self._recorded(inner, mark, gone)

    async def _launched(self, driver: "Playwright", path: Path, mark: str) -> "Browser":
        return await driver.chromium.launch(
            executable_path=path,
            args=[*self._flags, f"{orphans.MARK}{mark}"],
            chromium_sandbox=os.geteuid() != 0,  # it refuses to run with one as root
            proxy={"server": NOWHERE, "bypass": "<-loopback>"},
            timeout=LAUNCH_TIMEOUT * 1000,
            handle_sigint=False,  # Ctrl-C is handled by us: running visits finish
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def clear_up(self) -> None:
        """End browsers that a killed process left behind: at our start, and before our first browser."""
        if self._pids and (ended := await asyncio.to_thread(orphans.end_orphans, self._pids)):
            log.warning("orphaned_browsers_ended", count=ended)

    async def close(self) -> None:
        await self._stop_driver()

    async def _recorded(self, inner: "Browser", mark: str, gone: Callable[[ChromiumBrowser], None]) -> ChromiumBrowser:
        process = await asyncio.to_thread(orphans.find_marked, mark)
        file = None
        if process and self._pids:
            with contextlib.suppress(OSError):  # a full disk must not keep a browser from working
                file = orphans.record(self._pids, process, mark)
        browser = ChromiumBrowser(inner, process, file)
        self._living += 1

        def ended(_: object = None) -> None:
            if not browser.is_gone:
                self._living -= 1
                browser.gone.set()
                gone(browser)

        inner.on("disconnected", ended)
        if process:
            _when_ended(process, ended)  # a driver that dies reports nothing about its browsers
        if not inner.is_connected():
            ended()
        return browser

    async def _running_driver(self) -> "Playwright":
        async with self._starting:
            if self._driver is None:
                await self.clear_up()
                self._driver = await _start_driver()
            return self._driver

    async def _another_driver(self, dead: "Playwright") -> "Playwright":
        if self._driver is dead:  # else another launch was quicker
            await self._stop_driver()
        return await self._running_driver()

    async def _stop_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(Exception):  # it is thrown away in any case
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await driver.stop()


async def _start_driver() -> "Playwright":
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        raise Unconfigured(
            "Browser visits need Playwright. Install it: pip install 'forager-data[browser]' "
            "(it drives the Chromium of the system; `playwright install` is not needed)."
        ) from None
    return await async_playwright().start()


def _end(process: orphans.Process, tree: Sequence[orphans.Process]) -> None:
    """Kill the remaining processes of a browser, and wait until they have ended."""
    until = time.monotonic() + CLOSE_TIMEOUT
    orphans.kill_tree(process)
    while (left := [member for member in tree if member.is_alive]) and time.monotonic() < until:
        for member in left:
            orphans.kill_tree(member)
        time.sleep(0.005)


def _when_ended(process: orphans.Process, call: Callable[[], None]) -> None:
    """Call `act` when a process has ended that is not our child. Never called on systems without pidfd."""
    if not hasattr(os, "pidfd_open"):
        return
    loop = asyncio.get_running_loop()
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        call()
        return

    def ended() -> None:
        loop.remove_reader(watched)
        os.close(watched)
        call()

    loop.add_reader(watched, ended)


def _why(path: Path, error: Exception) -> str:
    """Return the most useful line of Chromium's output. Playwright's message contains the whole command line."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = next((line for line in lines if "ERROR:" in line or "FATAL:" in line or "sandbox" in line), "")
    message = telling.partition("]")[2].strip(" :") or (lines[0] if lines else type(error).__name__)
    hint = " Its sandbox needs user namespaces: allow them, or run Forager as a user that has them."
    return f"{path} did not start: {message[:200]}.{hint if 'sandbox' in telling else ''}"
