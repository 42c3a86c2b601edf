"""The browser fetcher: takes a request and returns the rendered page. Its browsers come from the pool.

It must never retry (the engine decides), never go anywhere but through the gate, and never start a browser before the
first request that needs one.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from random import Random

from forager.core.clock import Clock
from forager.core.errors import Permanent
from forager.core.http import Request, Response
from forager.core.proxies import ProxyEndpoint
from forager.fetch.browser.chromium import ChromiumBrowser
from forager.fetch.browser.gate import Gate
from forager.fetch.browser.pool import Launcher, Pool, PoolLimits, PoolStats
from forager.fetch.browser.visit import Manner, Visit
from forager.fetch.fingerprints import DELAY, Fingerprints, action_delay
from forager.fetch.guard import EgressGuard
from forager.fetch.http.connect import map_errors
from forager.fetch.http.sessions import HARMLESS
from forager.fetch.page_classifier import looks

NAVIGATION_TIMEOUT = 30.0
Endpoints = Callable[[int], ProxyEndpoint]
"""Returns the endpoint of a proxy by its number in the ledger."""


def no_proxies(number: int) -> ProxyEndpoint:
    raise Permanent(f"There is no proxy {number} here.")


class BrowserFetcher:
    """Implements `core.http.Fetch` for `render="browser"`. Create it inside a running loop; `close` it at the end."""

    def __init__(
        self,
        guard: EgressGuard,
        gate: Gate,
        clock: Clock,
        launcher: Launcher[ChromiumBrowser],
        *,
        limits: PoolLimits | None = None,
        navigation_timeout: float = NAVIGATION_TIMEOUT,
        endpoints: Endpoints = no_proxies,
        random: Random | None = None,
    ) -> None:
        self._guard = guard
        self._gate = gate
        self._clock = clock
        self._pool = Pool(launcher, clock, limits)
        self._navigation_timeout = navigation_timeout
        self._endpoints = endpoints
        self._random = random or Random()  # noqa: S311 - delays and disguises, not secrets
        self._fingerprints = Fingerprints(self._random)
        self._numbers = count(1)
        self.visits: dict[int, Visit] = {}
        """Pages that are open now, by a number of their own."""

    async def __call__(self, request: Request) -> Response:
        """Visit one page. Raises `PoolExhausted` if no browser is free, and the errors of `core.http.Fetch`."""
        with map_errors(request.url):
            self._guard.check_url(request.url)
            _check(request)
            endpoint = self._endpoints(request.proxy) if request.proxy is not None else None
        manner = self._manner(request, endpoint.region if endpoint else None)
        async with self._pool.browser() as browser, self._gate.open(endpoint) as passage:
            visit = Visit(browser, passage, self._guard, request, manner, self._clock)
            number = next(self._numbers)
            self.visits[number] = visit
            try:
                response = await visit.perform()
            finally:
                del self.visits[number]
        if not request.site:
            return response
        return replace(response, looks=looks(response.status, response.headers, response.body, rendered=True))

    @property
    def is_installed(self) -> bool:
        """Return whether the driver (the extra `browser`) is installed."""
        return find_spec("playwright") is not None

    def stats(self) -> PoolStats:
        return self._pool.stats()

    async def close(self, grace: float = 0.0) -> None:
        await self._pool.close(grace)

    def _manner(self, request: Request, region: str | None) -> Manner:
        async def pause() -> None:
            await self._clock.sleep(action_delay(self._random, request.delay))

        # A session is one visitor, who does not change the browser from page to page.
        named = request.session
        known = self._fingerprints if named is None else Fingerprints(Random(f"{named.workspace}/{named.name}"))  # noqa: S311
        return Manner(
            fingerprint=known.next(region),
            navigation_timeout=self._navigation_timeout,
            pause=pause,
            longest_pause=(request.delay or DELAY)[1],
        )


def _check(request: Request) -> None:
    """Refuse a body and headers, which a browser would repeat to every host of the page, instead of dropping them
    silently."""
    if request.method.upper() != "GET" or request.body is not None:
        raise Permanent("a browser visit is a GET without a body. Send it by plain HTTP (render='http').")
    own = [name for name in request.headers if name.lower() not in HARMLESS | {"referer"}]
    if request.auth or own:
        named = ", ".join(own) or "a secret"
        raise Permanent(f"a browser visit carries no header of its own ({named}). Send it by plain HTTP.")
