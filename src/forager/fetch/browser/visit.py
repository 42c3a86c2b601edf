"""One visit: a fresh context in a lent browser, through a passage of its own, to one page; what the page became, back.

Nothing is left behind: cookies, storage, cache and connections end with the context. It must never send a secret, a
body or a header of its own (a browser would repeat them to everybody a page asks; the cookies of a log-in it keeps to
their domain), never keep a download, and never take longer than its navigation, its script and a moment.
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
"""Seconds that a page may go on loading after its document is there: one that never rests is taken as it is."""
SPARE = 15.0
OPEN_TIMEOUT = 10.0
CLOSE_TIMEOUT = 5.0
GATE_STATUSES = frozenset((400, 403, 431, 502, 503))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a visit is made."""

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
        """Go, act, read. Ends at once when the browser dies, whatever its driver still waits for."""
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
        """Raises `TimedOut`; time in which a hop waited for its lane does not count."""
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
        """Waiting for a lane is not the site's fault: its time stands still meanwhile."""
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
        """What takes a browser milliseconds and does not come in seconds never will: it is stuck, and ended."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                return await asked
        except TimeoutError:
            await self._browser.close()
            raise BrowserCrashed(f"the browser did not answer within {OPEN_TIMEOUT:g} s and was ended.") from None

    async def _go(self, page: "Page") -> None:
        """Until the document is there; then for a moment until all that it loads is."""
        from playwright.async_api import Error

        referer = next((value for name, value in self._request.headers.items() if name.lower() == "referer"), None)
        limit = min(self._manner.navigation_timeout, self._request.timeout)
        try:
            async with self._limited(limit, f"no page within {limit:g} s."):
                await page.goto(self._request.url, wait_until="domcontentloaded", timeout=0, referer=referer)
        except Error as error:
            # An error's status with an empty body is shown by Chromium as a page of its own: the answer is still one.
            if "ERR_HTTP_RESPONSE_CODE_FAILURE" not in str(error) or self._intercept.answer is None:
                raise
        self._check_gate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE):
                await self._witness.loaded.wait()

    def _check_gate(self) -> None:
        """A refusal of plain HTTP comes as an answer of the gate: it must not be taken for the site's."""
        answer = self._intercept.answer
        if answer is None or answer.status not in GATE_STATUSES or answer.header("cache-control") != "no-store":
            return
        if error := self._passage.error_of(answer.url):
            raise error

    def _meant(self, error: Exception) -> ForagerError:
        """Why a visit failed: what the gate knows is more than what the browser saw."""
        if self._browser.is_gone:
            return BrowserCrashed("the browser died while it was on the page.")
        if "net::ERR_" not in str(error):
            return translated(error)
        return self._passage.proxy_failed or self._passage.error_of(self._intercept.last_url) or translated(error)

    def _break(self, error: Exception) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)

    async def _close(self, context: "BrowserContext") -> None:
        """A browser that does not even close a context is stuck, and ended."""
        closing = asyncio.ensure_future(quietly(context.close()))
        done, _ = await asyncio.wait((closing,), timeout=CLOSE_TIMEOUT)
        if not done:
            closing.cancel()
            await self._browser.close()


def _cookie(cookie: Cookie) -> Any:
    """As the browser takes it: for the domain and the hosts in it; an address is only itself."""
    domain = cookie.domain if literal(cookie.domain) else f".{cookie.domain}"
    value = cookie.value.reveal()
    return {"name": cookie.name, "value": value, "domain": domain, "path": "/", "secure": cookie.secure}


def _options(fingerprint: Fingerprint, passage: Passage) -> dict[str, Any]:
    """Of a fresh context: who we are, and the one way out."""
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
    """What a context's options cannot say: the client hints and the platform that belong to the user agent."""
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
