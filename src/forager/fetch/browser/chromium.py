"""Starts the system's Chromium through Playwright, with everything switched off that a visit does not need.

All traffic of a browser must go through the proxy of a visit's context. Traffic without a context (updates, reports,
lookups) is directed to a port on which nothing listens. Playwright is imported when the first browser starts.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from forager.core.errors import BrowserCrashed, ForagerError, Permanent, Refused, Transient, Unconfigured
from forager.core.states import ErrorType, Reason

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright


# Finds the system's Chromium. Forager uses the installed one and never downloads another.


# The headless shell first: it needs half the memory of the full browser, and loads pages several times faster.
CANDIDATES = (
    "/usr/lib/chromium/chromium-headless-shell",
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
INSTALL = (
    "Install one (Debian: apt-get install chromium-headless-shell), or name it: FORAGER_CHROMIUM=/path/to/chromium"
)


def find_chromium(chosen: str | Path | None = None, *, which: Callable[[str], str | None] = shutil.which) -> Path:
    """Return the configured program, else the first installed one. Raises `Unconfigured` if no program is found."""
    if chosen:
        named = Path(chosen)
        if not (named.is_file() and os.access(named, os.X_OK)):
            raise Unconfigured(
                f"FORAGER_CHROMIUM names {named}, which is not a program. Correct it, or leave it unset."
            )
        return named
    installed = next((path for name in CANDIDATES if (path := which(name))), None)
    if installed is None:
        raise Unconfigured(f"There is no Chromium on this machine. {INSTALL}")
    return Path(installed)


# Records running browsers, each in a file in `pids/`, so that none outlives our process for long.
#
# A browser ends by itself when our process dies (its pipe closes). If that fails, the next start finds its file and
# ends it. Only a process that is certainly ours is ended: same pid, same start time, and our mark on its command line.


PROC = Path("/proc")
MARK = "--forager-browser="
"""A flag that Chromium ignores because it does not define it; its value is unique to one browser."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process identified by pid and start time: the kernel reuses a pid, but not with the same start time."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        fields = _stat(pid)
        return cls(pid, int(fields[19])) if fields and fields[0] != "Z" else None

    @property
    def is_alive(self) -> bool:
        return Process.of(self.pid) == self


@dataclass(frozen=True, slots=True)
class RecordedBrowser:
    browser: Process
    owner: Process
    mark: str


def find_marked(mark: str) -> Process | None:
    """Return the process with this mark, which only a browser's main process has."""
    return next((process for pid in _pids() if _has_mark(pid, mark) and (process := Process.of(pid))), None)


def record(folder: Path, browser: Process, mark: str) -> Path:
    """Record a browser that belongs to this process."""
    owner = Process.of(os.getpid())
    path = folder / f"browser-{browser.pid}-{browser.started}.json"
    for each in (folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(json.dumps({"browser": asdict(browser), "owner": owner and asdict(owner), "mark": mark}))
    return path


def end_orphans(folder: Path) -> int:
    """End the browsers whose owner is dead, and return how many. Files of browsers that have ended are removed."""
    ended = 0
    for path in sorted(folder.glob("browser-*.json")):
        entry = _read(path)
        if entry is not None and entry.owner.is_alive:
            continue
        if entry is not None and entry.browser.is_alive and _has_mark(entry.browser.pid, entry.mark):
            kill_tree(entry.browser)
            ended += 1
        path.unlink(missing_ok=True)
    return ended


def kill_tree(process: Process) -> None:
    """Kill a browser's process and all its descendants."""
    tree = family(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.is_alive and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    for member in tree:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if member.is_alive:
                os.kill(member.pid, signal.SIGKILL)


def family(process: Process) -> list[Process]:
    """Return a process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    members: list[Process] = []
    pending = [process.pid] if process.is_alive else []
    while pending:
        pid = pending.pop()
        if member := Process.of(pid):
            members.append(member)
        pending += children.get(pid, [])
    return members


def memory_of(process: Process) -> int:
    """Return the bytes that a browser uses: the private memory of each process, plus the shared memory once.

    The kernel keeps these figures; the proportional share would be more exact, but takes milliseconds to compute.
    """
    pages = [_pages(member.pid) for member in family(process)]
    return (sum(own for own, _ in pages) + max((shared for _, shared in pages), default=0)) * os.sysconf("SC_PAGESIZE")


def _pages(pid: int) -> tuple[int, int]:
    try:
        _, resident, shared, *_ = map(int, (PROC / str(pid) / "statm").read_text(errors="replace").split())
    except (OSError, ValueError):
        return 0, 0
    return resident - shared, shared


def _read(path: Path) -> RecordedBrowser | None:
    try:
        fields = json.loads(path.read_text(errors="replace"))
        return RecordedBrowser(Process(**fields["browser"]), Process(**fields["owner"]), str(fields["mark"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _pids() -> Iterator[int]:
    if PROC.is_dir():
        yield from (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}{mark}".encode() in (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may itself hold spaces: state, parent, …"""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


log = structlog.get_logger("forager.browser")

LAUNCH_TIMEOUT = 20.0
CLOSE_TIMEOUT = 5.0
CLOSED = "has been closed"
NOWHERE = "http://127.0.0.1:9"  # the port of the discard protocol: nothing listens, and the guard refuses it anyway
FLAGS = (
    "--disable-quic",  # UDP passes no proxy
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # only the gate resolves names
    "--block-new-web-contents",  # no pop-ups; without effect on the whole browser, where they are closed
    "--disable-gpu",
    "--disable-domain-reliability",
    "--no-pings",
    "--no-first-run",
)
STEALTH = "--disable-blink-features=AutomationControlled"  # `navigator.webdriver` is false, as in a person's browser


class ChromiumBrowser:
    """One running Chromium. `inner` is Playwright's; `gone` is set when it has ended, for whatever reason."""

    def __init__(self, inner: "Browser", process: Process | None, file: Path | None) -> None:
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
        return memory_of(self._process) if self._process else 0

    async def close(self) -> None:
        """Close the browser, by force if necessary. Afterwards none of its processes is left."""
        process = self._process
        tree = await asyncio.to_thread(family, process) if process else []
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
        """Return whether a Chromium is installed. Readiness calls this often, so the result is cached."""
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
            args=[*self._flags, f"{MARK}{mark}"],
            chromium_sandbox=os.geteuid() != 0,  # it refuses to run with one as root
            proxy={"server": NOWHERE, "bypass": "<-loopback>"},
            timeout=LAUNCH_TIMEOUT * 1000,
            handle_sigint=False,  # Ctrl-C is handled by us: running visits finish
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def clear_up(self) -> None:
        """End browsers that a killed process left behind: at our start, and before our first browser."""
        if self._pids and (ended := await asyncio.to_thread(end_orphans, self._pids)):
            log.warning("orphaned_browsers_ended", count=ended)

    async def close(self) -> None:
        await self._stop_driver()

    async def _recorded(self, inner: "Browser", mark: str, gone: Callable[[ChromiumBrowser], None]) -> ChromiumBrowser:
        process = await asyncio.to_thread(find_marked, mark)
        file = None
        if process and self._pids:
            with contextlib.suppress(OSError):  # a full disk must not keep a browser from working
                file = record(self._pids, process, mark)
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


def _end(process: Process, tree: Sequence[Process]) -> None:
    """Kill the remaining processes of a browser, and wait until they have ended."""
    until = time.monotonic() + CLOSE_TIMEOUT
    kill_tree(process)
    while (left := [member for member in tree if member.is_alive]) and time.monotonic() < until:
        for member in left:
            kill_tree(member)
        time.sleep(0.005)


def _when_ended(process: Process, call: Callable[[], None]) -> None:
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


# Translates a browser's errors to ours. Its texts are never shown, because they contain whole URLs.
#
# the guard → Refused the proxy → ProxyFailed time-out → TimedOut no connection, dropped, not HTTP, does not resolve →
# Transient certificate, a scheme or a port it will not open, a file → Permanent the browser or the page's process died
# → BrowserCrashed


_NET = re.compile(r"net::ERR_([A-Z0-9_]+)")
_ANSWERED = ("EMPTY", "INVALID_", "CONTENT_", "INCOMPLETE_", "RESPONSE_", "HTTP2_", "QUIC_")
NOT_A_PAGE = "not_a_page"
_DEAD = ("Target page, context or browser has been closed", "Target closed", "Connection closed", "Browser closed")

PERMANENT = {
    "UNSAFE_PORT": "its port is not for web pages",
    "UNKNOWN_URL_SCHEME": "its scheme is not one that is visited",
    "DISALLOWED_URL_SCHEME": "its scheme is not one that is visited",
    "INVALID_URL": "it is not a URL that a browser can open",
    "INVALID_REDIRECT": "it redirects to something that is not a URL",
    "UNSAFE_REDIRECT": "it redirects to something that may not be visited",
    "ABORTED": "it is a download or an empty answer, not a page; fetch it by plain HTTP",
}


def translated(error: Exception) -> ForagerError:
    """Return our error for a browser's error."""
    text = str(error)
    if code := _NET.search(text):
        return _net(code[1])
    if any(sign in text for sign in _DEAD):
        return BrowserCrashed("the browser died while it was on the page.")
    if "Page crashed" in text:
        return page_crashed()
    if "Download is starting" in text:
        message = "it is a download, not a page; fetch it by plain HTTP."
        return Permanent(message, reason=NOT_A_PAGE, error_type=ErrorType.PARSE)
    if "invalid URL" in text or "Cannot navigate" in text:
        return Permanent("it is not a URL that a browser can open.", error_type=ErrorType.VALIDATION)
    message = f"the visit failed ({type(error).__name__})."
    return Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)


def page_crashed() -> BrowserCrashed:
    return BrowserCrashed("the page's process died: out of memory, or a fault of the browser.")


def _net(code: str) -> ForagerError:
    words = code.replace("_", " ").lower()
    if code == "TOO_MANY_REDIRECTS":
        return Refused("it redirects without end.", reason=Reason.TOO_MANY_REDIRECTS)
    if code.startswith(("CERT_", "SSL_", "BAD_SSL", "ECH_")):
        message = f"its certificate or encryption is not trusted ({words})."
        return Permanent(message, reason=Reason.CERTIFICATE, error_type=ErrorType.NETWORK)
    if code in PERMANENT:
        reason = NOT_A_PAGE if code == "ABORTED" else Reason.EGRESS_REFUSED
        return Permanent(f"{PERMANENT[code]}.", reason=reason, error_type=ErrorType.VALIDATION)
    reason = Reason.BROKEN_ANSWER if code.startswith(_ANSWERED) else Reason.UNREACHABLE
    return Transient(f"the page could not be loaded ({words}).", maybe_done=code.startswith("EMPTY"), reason=reason)


async def quietly(work: Awaitable[object]) -> None:
    """Await a call, and ignore errors because the page or the browser is gone."""
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await work
