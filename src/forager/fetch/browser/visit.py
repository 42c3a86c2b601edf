"""One visit: opens a fresh context in a lent browser, goes through its own passage to one page, and returns the
rendered page.

Nothing remains in the browser: cookies, storage, cache and connections end with the context; those of a named session
are handed back with the page, as a secret. A visit never sends a secret, a body or a
header of its own, because a browser would repeat them to every host that the page contacts (it restricts the cookies of
a login to their domain). It never keeps a download, and it has a time limit: its navigation, its script and a moment.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from multidict import CIMultiDict

from forager.core.clock import Clock
from forager.core.errors import BrowserCrashed, ForagerError, Permanent, Refused, TimedOut, Transient
from forager.core.http import (
    MOST_SCROLLS,
    Action,
    CaptureJson,
    Click,
    Cookie,
    PressKey,
    PrintPdf,
    Request,
    Response,
    Rest,
    RunScript,
    Screenshot,
    Scroll,
    SelectOption,
    TypeText,
    WaitFor,
    WaitQuiet,
)
from forager.core.secret import Secret
from forager.core.states import ErrorType, Reason
from forager.fetch.browser.capture import JsonCapture
from forager.fetch.browser.chromium import ChromiumBrowser, page_crashed, quietly, translated
from forager.fetch.browser.gate import Passage
from forager.fetch.browser.intercept import Intercept, MainAnswer
from forager.fetch.fingerprints import Fingerprint
from forager.fetch.guard import EgressGuard, literal
from forager.fetch.http.connect import map_errors
from forager.fetch.http.fetcher import Stopwatch

if TYPE_CHECKING:
    from datetime import datetime

    from playwright.async_api import BrowserContext, CDPSession, ConsoleMessage, Page


# Reads the rendered page into a `Response`: the status and headers of the answer, and the current HTML.
#
# It is read in an isolated JavaScript world, which the page's own changes to built-in objects do not reach. Its size is
# checked there, before it is transferred, so that a page cannot fill our memory.


TRIES = 3
GOING_ELSEWHERE = 5.0
# These headers describe the bytes on the wire, not the rendered page.
NOT_OF_THE_PAGE = frozenset(("content-encoding", "content-length", "transfer-encoding", "content-type"))
_SERIALISED = """(() => {
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
  const text = type + (document.documentElement ? document.documentElement.outerHTML : '');
  return text.length > %d ? text.length : text;
})()"""


async def read_html(page: "Page", session: "CDPSession", frame: str, most: int) -> bytes:
    """Return the current HTML. If the page navigates meanwhile, wait for the new one."""
    from playwright.async_api import Error

    for attempt in range(1, TRIES + 1):
        try:
            html = await _evaluated(session, frame, _SERIALISED % most)
            break
        except (Error, KeyError):
            if attempt == TRIES or page.is_closed():
                raise
            await quietly(page.wait_for_load_state("domcontentloaded", timeout=GOING_ELSEWHERE * 1000))
    body = html.encode(errors="replace") if isinstance(html, str) else None
    if body is None or len(body) > most:
        raise Refused(f"the page is larger than its cap of {most:,} bytes.", reason=Reason.TOO_LARGE)
    return body


def response_of(url: str, answer: MainAnswer | None, body: bytes, console: Sequence[str], at: "datetime") -> Response:
    if answer is None:
        message = "the browser shows a page that no answer belongs to."
        raise Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)
    headers = CIMultiDict((name, value) for name, value in answer.headers if name.lower() not in NOT_OF_THE_PAGE)
    headers["Content-Type"] = "text/html; charset=utf-8"
    return Response(
        url=url if url.startswith("http") else answer.url,
        status=answer.status,
        headers=headers,
        body=body,
        at=at,
        elapsed_ms=0,
        rendered=True,
        console=tuple(console),
    )


async def _evaluated(session: "CDPSession", frame: str, expression: str) -> object:
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "forager"})
    read = await session.send(
        "Runtime.evaluate",
        {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True},
    )
    value: object = read["result"]["value"]
    return value


# Listens to a page's events during a visit: console errors, pop-ups, load, crash.


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
        """Close a pop-up. Dialogs need no handler: the driver dismisses them."""
        self.note("a pop-up was closed")
        task = asyncio.ensure_future(quietly(popup.close()))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


# Performs the script of a visit: wait, scroll, click, screenshot. An element that is missing is skipped, unless it is
# required.


MOST_SCREENSHOT = 16 * 1024 * 1024
MOST_PDF = 16 * 1024 * 1024
TALLEST = 10_000
"""Maximum pixels of a full-page screenshot: an endless page would fill the browser's memory."""
SCREENSHOT_TIMEOUT = 10.0
GROWTH = 1.0
"""Seconds that a page is given to grow after it was scrolled."""
LONGEST = 600.0

# A page that fits into the window cannot be scrolled, and has loaded everything already: returns null.
_TO_THE_END = """() => {
  const h = document.documentElement.scrollHeight;
  if (h <= window.innerHeight) return null;
  window.scrollTo(0, h);
  return h;
}"""
_LOOKS_WRONG = """() => {
  const came = performance.getEntriesByType('navigation')[0];
  const text = document.body ? document.body.innerText : '';
  const wall = "input[type=password], [class*=captcha i], [id*=captcha i], iframe[src*=captcha]";
  return (came && came.responseStatus >= 400) || text.length < 200 || document.querySelector(wall) !== null;
}"""
_IS_LONGER = "before => document.documentElement.scrollHeight > before"

Pause = Callable[[], Awaitable[None]]


def most_seconds(script: Sequence[Action], longest_pause: float) -> float:
    """Return the longest time that a script can take. A visit that takes longer is stuck."""
    return sum(_seconds(action, longest_pause) for action in script)


@dataclass(slots=True)
class VisitFiles:
    """Results of the script of a visit: the last screenshot and the last PDF."""

    screenshot: bytes | None = None
    pdf: bytes | None = None


async def perform(page: "Page", session: "CDPSession", script: Sequence[Action], pause: Pause) -> VisitFiles:
    """Perform all actions in order, with a pause before each."""
    taken = VisitFiles()
    for action in script:
        if isinstance(action, CaptureJson):  # it has begun with the visit
            continue
        if isinstance(action, Screenshot) and action.if_wrong and not await page.evaluate(_LOOKS_WRONG):
            continue
        await pause()
        match action:
            case WaitFor():
                await _wait_for(page, action)
            case WaitQuiet():
                await _patiently(page.wait_for_load_state("networkidle", timeout=_ms(action.timeout)))
            case Scroll():
                await _scroll(page, action, pause)
            case Click():
                await _click(page, action)
            case TypeText() | PressKey() | SelectOption():
                await _enter(page, action)
            case Rest():
                await asyncio.sleep(min(action.seconds, LONGEST))
            case RunScript():
                await _run(page, action)
            case PrintPdf():
                taken.pdf = await _print(session)
            case Screenshot():
                taken.screenshot = await _screenshot(page, action)
    return taken


async def _wait_for(page: "Page", action: WaitFor) -> None:
    there = await _patiently(
        page.wait_for_selector(action.selector, state="attached", timeout=_ms(action.timeout)), action.selector
    )
    if action.must and not there:
        raise _failed(action.label, f"nothing that {action.selector!r} names appeared within {action.timeout:g} s.")


async def _click(page: "Page", action: Click) -> None:
    done = await _patiently(page.click(action.selector, timeout=_ms(action.timeout)), action.selector)
    if action.must and not done:
        raise _failed(action.label, f"nothing that {action.selector!r} names could be clicked in {action.timeout:g} s.")
    # A click may lead to another page: the next actions apply to that one.
    await _patiently(page.wait_for_load_state("domcontentloaded", timeout=_ms(LONGEST)))


async def _enter(page: "Page", action: TypeText | PressKey | SelectOption) -> None:
    """Type, press or select. An Enter may lead to another page, like a click."""
    timeout = _ms(action.timeout)
    match action:
        case TypeText():
            done = await _patiently(page.fill(action.selector, action.text, timeout=timeout), action.selector)
        case PressKey(selector=None):
            done = await _patiently(page.keyboard.press(action.key), action.key)
        case PressKey():
            done = await _patiently(page.press(str(action.selector), action.key, timeout=timeout), action.selector)
        case SelectOption():
            done = await _patiently(page.select_option(action.selector, action.value, timeout=timeout), action.selector)
    if action.must and not done:
        named = repr(action.selector)
        raise _failed(action.label, f"nothing that {named} names could be used within {action.timeout:g} s.")
    await _patiently(page.wait_for_load_state("domcontentloaded", timeout=_ms(LONGEST)))


async def _run(page: "Page", action: RunScript) -> None:
    """Run a script of the caller. Its value is dropped in the page, so that it cannot fill our memory."""
    from playwright.async_api import Error

    try:
        async with asyncio.timeout(action.timeout):
            await page.evaluate(f"(async () => {{{action.script}\n}})().then(() => undefined)")
    except TimeoutError:
        raise _failed(action.label, f"the script did not end within {action.timeout:g} s.") from None
    except Error as error:
        if page.is_closed():
            raise
        raise _failed(action.label, f"the script failed: {str(error).splitlines()[0][:200]}") from None


def _failed(label: str, message: str) -> ForagerError:
    """Return the failure of a required action. One that a caller has requested would fail again."""
    if not label:
        return TimedOut(message)
    return Permanent(f"{label}: {message}", reason=Reason.ACTION_FAILED, error_type=ErrorType.PARSE)


async def _scroll(page: "Page", action: Scroll, pause: Pause) -> None:
    for turn in range(min(action.times, MOST_SCROLLS)):
        if turn:
            await pause()
        before = await page.evaluate(_TO_THE_END)
        if before is None or not await _patiently(page.wait_for_function(_IS_LONGER, arg=before, timeout=_ms(GROWTH))):
            return


async def _screenshot(page: "Page", action: Screenshot) -> bytes | None:
    """Take a screenshot. Returns None if it is too big."""
    if action.selector is not None:
        return await _element(page, action, action.selector)
    width = page.viewport_size["width"] if page.viewport_size else 1280
    tall = action.full_page and await page.evaluate("() => document.documentElement.scrollHeight") > TALLEST
    taken = await page.screenshot(
        full_page=action.full_page,
        timeout=_ms(SCREENSHOT_TIMEOUT),
        clip={"x": 0, "y": 0, "width": width, "height": TALLEST} if tall else None,
    )
    return taken if len(taken) <= MOST_SCREENSHOT else None


async def _element(page: "Page", action: Screenshot, selector: str) -> bytes | None:
    """Take a screenshot of the first element that the selector names."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as PageTimeout

    found = page.locator(selector).first
    try:
        box = await found.bounding_box(timeout=_ms(SCREENSHOT_TIMEOUT))
        if box is None or not box["width"] or not box["height"]:
            raise _failed(action.label, f"what {selector!r} names is not visible.")
        if box["height"] > TALLEST or box["width"] > TALLEST:
            raise _failed(action.label, f"what {selector!r} names is larger than {TALLEST:,} pixels.")
        taken = await found.screenshot(timeout=_ms(SCREENSHOT_TIMEOUT))
    except PageTimeout:
        message = f"nothing that {selector!r} names appeared within {SCREENSHOT_TIMEOUT:g} s."
        raise _failed(action.label, message) from None
    except Error as error:
        raise _unreadable(selector, error) from None
    return taken if len(taken) <= MOST_SCREENSHOT else None


async def _print(session: "CDPSession") -> bytes | None:
    """Print the page to A4 sheets. Returns None if the file is too big. It is read as a stream, so that its size is
    known before all of it is in memory."""
    printed = await session.send(
        "Page.printToPDF",
        {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69, "transferMode": "ReturnAsStream"},
    )
    content = bytearray()
    try:
        while True:
            part = await session.send("IO.read", {"handle": printed["stream"], "size": 1024 * 1024})
            content += base64.b64decode(part["data"]) if part.get("base64Encoded") else part["data"].encode()
            if len(content) > MOST_PDF:
                return None
            if part["eof"]:
                return bytes(content)
    finally:
        await quietly(session.send("IO.close", {"handle": printed["stream"]}))


async def _patiently(waiting: Awaitable[object], selector: str | None = None) -> bool:
    """Return whether the element appeared in time. Raises `Permanent` for an invalid selector, which is a mistake in
    the script."""
    from playwright.async_api import Error
    from playwright.async_api import TimeoutError as PageTimeout

    try:
        await waiting
    except PageTimeout:
        return False
    except Error as error:
        if selector is not None:
            raise _unreadable(selector, error) from None
        raise
    return True


def _unreadable(selector: str, error: Exception) -> Exception:
    """Return what an error about a selector means: `Permanent` if the selector or key itself is wrong."""
    text = str(error)
    if "parsing" in text or "not a valid selector" in text or "Malformed" in text:
        return Permanent(f"the selector {selector!r} cannot be read. Correct the script.", reason=Reason.ACTION_FAILED)
    if "Unknown key" in text:
        return Permanent(f"there is no key {selector!r}. Use a name such as Enter.", reason=Reason.ACTION_FAILED)
    if "Element is not" in text:
        return Permanent(f"{selector!r}: {text.splitlines()[0][:200]}", reason=Reason.ACTION_FAILED)
    return error


def _seconds(action: Action, pause: float) -> float:
    match action:
        case WaitFor() | WaitQuiet() | Click() | TypeText() | PressKey() | SelectOption() | RunScript():
            return pause + action.timeout + GROWTH
        case Rest():
            return pause + action.seconds + GROWTH
        case PrintPdf():
            return pause + SCREENSHOT_TIMEOUT + GROWTH
        case CaptureJson():
            return GROWTH
        case Scroll():
            return min(action.times, MOST_SCROLLS) * (pause + GROWTH + GROWTH)
        case Screenshot():
            return pause + SCREENSHOT_TIMEOUT + GROWTH


def _ms(seconds: float) -> float:
    return max(1.0, min(seconds, LONGEST) * 1000)


SETTLE = 5.0
"""Seconds that a page may continue loading after its document has arrived. A page that never stops loading is then
taken as it is."""
SPARE = 15.0
THUMBNAIL_TIMEOUT = 2.0
OPEN_TIMEOUT = 10.0
CLOSE_TIMEOUT = 5.0
GATE_STATUSES = frozenset((400, 403, 431, 502, 503))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manner:
    """The options of a visit."""

    fingerprint: Fingerprint
    navigation_timeout: float
    pause: Callable[[], Awaitable[None]]
    longest_pause: float


class Visit:
    def __init__(
        self,
        browser: ChromiumBrowser,
        passage: Passage,
        guard: EgressGuard,
        request: Request,
        manner: Manner,
        clock: Clock,
    ) -> None:
        self._browser = browser
        self._passage = passage
        self._guard = guard
        self._request = request
        self._manner = manner
        self._clock = clock
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._witness = Witness(self._break)
        self._intercept: Intercept  # from the moment there is a page
        self._deadlines: list[asyncio.Timeout] = []
        self._watch = Stopwatch(clock)
        self._session: CDPSession | None = None
        self.url = request.url
        self.since = clock.now()

    async def thumbnail(self) -> bytes | None:
        """Return a small JPEG of what the page shows now. None if there is no page yet, or drawing takes too long."""
        from playwright.async_api import Error

        if self._session is None:
            return None
        area = {"x": 0, "y": 0, "width": 1280, "height": 800, "scale": 0.25}
        picture = {"format": "jpeg", "quality": 60, "clip": area}
        try:
            async with asyncio.timeout(THUMBNAIL_TIMEOUT):
                drawn = await self._session.send("Page.captureScreenshot", picture)
        except (Error, TimeoutError):
            return None  # the visit has just ended, or the page is busy
        return base64.b64decode(drawn["data"])

    async def perform(self) -> Response:
        """Navigate, perform the script, and read the page. Ends at once when the browser dies, even if its driver still
        waits."""
        running = asyncio.create_task(self._within_limits())
        gone = asyncio.create_task(self._browser.gone.wait())
        ends: tuple[asyncio.Future[Any], ...] = (running, gone, self._broken)
        try:
            with map_errors(self._request.url):
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if self._broken.done():
                    self._broken.result()
                if gone.done():
                    raise BrowserCrashed("the browser died while it was on the page.")
                return await running
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _within_limits(self) -> Response:
        from playwright.async_api import Error

        limit = self._manner.navigation_timeout + SETTLE + SPARE
        limit += most_seconds(self._request.script, self._manner.longest_pause)
        try:
            async with self._limited(limit, f"the visit took longer than {limit:g} s and was ended."):
                response = await self._in_context()
        except Error as error:
            raise self._meant(error) from None
        return replace(response, elapsed_ms=self._watch.ms)

    @contextlib.asynccontextmanager
    async def _limited(self, seconds: float, message: str) -> AsyncIterator[None]:
        """Limit the block's time; raises `TimedOut`. Time in which a hop waits for its lane does not count."""
        try:
            async with asyncio.timeout(seconds) as deadline:
                self._deadlines.append(deadline)
                try:
                    yield
                finally:
                    self._deadlines.remove(deadline)
        except TimeoutError:
            raise TimedOut(message) from None

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Stop the time limit while a hop waits for its lane, which is not the site's fault."""
        loop = asyncio.get_running_loop()
        began, held = loop.time(), [(each, each.when()) for each in self._deadlines]
        for deadline, _ in held:
            deadline.reschedule(None)
        try:
            with self._watch.stopped():
                yield
        finally:
            for deadline, when in held:
                if when is not None and not deadline.expired():
                    deadline.reschedule(when + loop.time() - began)

    async def _in_context(self) -> Response:
        options = _options(self._manner.fingerprint, self._passage)
        if self._request.state is not None:
            options["storage_state"] = orjson.loads(self._request.state.reveal())
        context = await self._answers(self._browser.inner.new_context(**options))
        try:
            if self._request.cookies:
                await self._answers(context.add_cookies([_cookie(each) for each in self._request.cookies]))
            page, session = await self._answers(self._open(context))
            capture = JsonCapture.of(session, self._request.script)
            try:
                if capture is not None:
                    await self._answers(capture.start())
                await self._go(page)
                taken = await perform(page, session, self._request.script, self._manner.pause)
                body = await read_html(page, session, self._intercept.frame, self._request.max_bytes)
                captured = await capture.answers() if capture is not None else ()
            finally:
                self._intercept.stop()
                if capture is not None:
                    capture.stop()
            console, now = self._witness.console, self._clock.now()
            read = response_of(page.url, self._intercept.answer, body, console, now)
            state = await self._state(context) if self._request.session is not None else None
            return replace(read, screenshot=taken.screenshot, pdf=taken.pdf, captured=captured, state=state)
        finally:
            await self._close(context)

    async def _state(self, context: "BrowserContext") -> Secret:
        """Return the cookies and the storage with which the visit ends."""
        return Secret(orjson.dumps(await self._answers(context.storage_state())).decode())

    async def _open(self, context: "BrowserContext") -> "tuple[Page, CDPSession]":
        page = await context.new_page()
        self._witness.listen(page, context)
        session = await context.new_cdp_session(page)
        self._intercept = Intercept(
            session, self._request, self._guard, self._passage, failed=self._break, held=self._held
        )
        await asyncio.gather(self._intercept.start(), _disguise(session, self._manner.fingerprint))
        self._session = session
        return page, session

    async def _answers(self, asked: Awaitable[T]) -> T:
        """Await an operation that takes a browser milliseconds. If it takes seconds, the browser is stuck, and is
        killed."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                return await asked
        except TimeoutError:
            await self._browser.close()
            raise BrowserCrashed(f"the browser did not answer within {OPEN_TIMEOUT:g} s and was ended.") from None

    async def _go(self, page: "Page") -> None:
        """Navigate and wait for the document, then for a moment until its resources are loaded."""
        from playwright.async_api import Error

        referer = next((value for name, value in self._request.headers.items() if name.lower() == "referer"), None)
        limit = min(self._manner.navigation_timeout, self._request.timeout)
        try:
            async with self._limited(limit, f"no page within {limit:g} s."):
                await page.goto(self._request.url, wait_until="domcontentloaded", timeout=0, referer=referer)
        except Error as error:
            # Chromium shows its own page for an error status with an empty body: that is still an answer.
            if "ERR_HTTP_RESPONSE_CODE_FAILURE" not in str(error) or self._intercept.answer is None:
                raise
        self._check_gate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE):
                await self._witness.loaded.wait()

    def _check_gate(self) -> None:
        """Raise if the answer is the gate's refusal of a plain HTTP request: it must not be taken for the site's."""
        answer = self._intercept.answer
        if answer is None or answer.status not in GATE_STATUSES or answer.header("cache-control") != "no-store":
            return
        if error := self._passage.error_of(answer.url):
            raise error

    def _meant(self, error: Exception) -> ForagerError:
        """Return why a visit failed. The gate has more details than the browser reports."""
        if self._browser.is_gone:
            return BrowserCrashed("the browser died while it was on the page.")
        if "net::ERR_" not in str(error):
            return translated(error)
        return self._passage.proxy_failed or self._passage.error_of(self._intercept.last_url) or translated(error)

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)

    async def _close(self, context: "BrowserContext") -> None:
        """Close the context. A browser that fails to do so is stuck and is killed."""
        closing = asyncio.ensure_future(quietly(context.close()))
        done, _ = await asyncio.wait((closing,), timeout=CLOSE_TIMEOUT)
        if not done:
            closing.cancel()
            await self._browser.close()


def _cookie(cookie: Cookie) -> Any:
    """Return a cookie in the browser's format: valid for the domain and its subdomains; an IP address has none."""
    domain = cookie.domain if literal(cookie.domain) else f".{cookie.domain}"
    value = cookie.value.reveal()
    return {"name": cookie.name, "value": value, "domain": domain, "path": "/", "secure": cookie.secure}


def _options(fingerprint: Fingerprint, passage: Passage) -> dict[str, Any]:
    """Return the options of a context: the fingerprint, and the gate as its proxy."""
    width, height = fingerprint.viewport
    options: dict[str, Any] = {
        "user_agent": fingerprint.user_agent,
        "locale": fingerprint.language,
        "timezone_id": fingerprint.timezone,
        "viewport": {"width": width, "height": height},
        "screen": {"width": width, "height": height},
        "accept_downloads": False,
        "service_workers": "block",
        "proxy": {"server": passage.url, "bypass": "<-loopback>"},
    }
    if fingerprint.geolocation:
        latitude, longitude = fingerprint.geolocation
        options["geolocation"] = {"latitude": latitude, "longitude": longitude}
        options["permissions"] = ["geolocation"]
    return options


async def _disguise(session: "CDPSession", fingerprint: Fingerprint) -> None:
    """Set what a context's options cannot: the client hints and the platform that match the user agent."""
    agent = fingerprint.agent
    await session.send(
        "Emulation.setUserAgentOverride",
        {
            "userAgent": agent.user_agent,
            "acceptLanguage": fingerprint.accept_language,
            "platform": agent.platform,
            "userAgentMetadata": agent.client_hints(),
        },
    )
