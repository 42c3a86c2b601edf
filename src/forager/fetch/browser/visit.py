"""One visit: opens a fresh context in a lent browser, goes through its own passage to one page, and returns the
rendered page.

Nothing remains: cookies, storage, cache and connections end with the context. A visit never sends a secret, a body or a
header of its own, because a browser would repeat them to every host that the page contacts (it restricts the cookies of
a login to their domain). It never keeps a download, and it has a time limit: its navigation, its script and a moment.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from forager.core.clock import Clock
from forager.core.errors import BrowserCrashed, ForagerError, TimedOut
from forager.core.http import Cookie, Request, Response
from forager.fetch.browser.actions import most_seconds, perform
from forager.fetch.browser.capture import read_html, response_of
from forager.fetch.browser.chromium import ChromiumBrowser
from forager.fetch.browser.failures import quietly, translated
from forager.fetch.browser.gate import Passage
from forager.fetch.browser.intercept import Intercept
from forager.fetch.browser.page_events import Witness
from forager.fetch.errors import map_errors
from forager.fetch.fingerprints import Fingerprint
from forager.fetch.guard import EgressGuard, literal
from forager.fetch.stopwatch import Stopwatch

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

SETTLE = 5.0
"""Seconds that a page may go on loading after its document has arrived. A page that never stops loading is then taken
as it is."""
SPARE = 15.0
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
        context = await self._answers(
            self._browser.inner.new_context(**_options(self._manner.fingerprint, self._passage))
        )
        try:
            if self._request.cookies:
                await self._answers(context.add_cookies([_cookie(each) for each in self._request.cookies]))
            page, session = await self._answers(self._open(context))
            try:
                await self._go(page)
                shot = await perform(page, self._request.script, self._manner.pause)
                body = await read_html(page, session, self._intercept.frame, self._request.max_bytes)
            finally:
                self._intercept.stop()
            console, now = self._witness.console, self._clock.now()
            return replace(response_of(page.url, self._intercept.answer, body, console, now), screenshot=shot)
        finally:
            await self._close(context)

    async def _open(self, context: "BrowserContext") -> "tuple[Page, CDPSession]":
        page = await context.new_page()
        self._witness.listen(page, context)
        session = await context.new_cdp_session(page)
        self._intercept = Intercept(
            session, self._request, self._guard, self._passage, failed=self._break, held=self._held
        )
        await asyncio.gather(self._intercept.start(), _disguise(session, self._manner.fingerprint))
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
        """Return why a visit failed. The gate knows more than the browser reports."""
        if self._browser.is_gone:
            return BrowserCrashed("the browser died while it was on the page.")
        if "net::ERR_" not in str(error):
            return translated(error)
        return self._passage.proxy_failed or self._passage.error_of(self._intercept.last_url) or translated(error)

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)

    async def _close(self, context: "BrowserContext") -> None:
        """Close the context. A browser that cannot do that is stuck, and is killed."""
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
