"""A small web site on a port of this machine, to be polite to: everything about it can be set while it runs.

Any host name reaches it (`url(path, host=…)` with a resolver for the name), so one listener stands for as many
domains as a test needs; several sites on ports of their own are several origins. Its log has every request from the
moment it arrives, so that an auditor can count the starts in any window. Binds the loopback address only.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain, repeat

from forager.sandbox.rate import SlidingWindow
from forager.sandbox.scrape_pages import TEXT, SiteAnswer, page, retry_after, scrape_answer, usual_answer
from forager.sandbox.wire import LOOPBACK, Connection, PortListener, WireRequest

_PART = 64 * 1024


class Outage(StrEnum):
    BLACK_HOLE = "black_hole"
    """Accepted, never answered."""
    ERROR = "error"
    """500, without a word when to come again."""
    RESET = "reset"
    """Accepted, then the connection ends without a byte."""
    REFUSED = "refused"
    """The port is closed. For the whole site only."""


@dataclass(slots=True)
class SiteVisit:
    """One request. `status` is 0 until it is answered, and stays 0 if it never is."""

    n: int
    at: float
    """Arrival, on this process's monotonic clock."""
    wall: float
    host: str
    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]
    status: int = 0
    ended: float | None = None


@dataclass
class SandboxSite(PortListener):
    """`async with SandboxSite() as site:`. What is set on it holds from the next request on."""

    robots: SiteAnswer = field(default_factory=lambda: SiteAnswer(404, b"none", TEXT))
    answers: dict[str, SiteAnswer | Callable[[WireRequest], SiteAnswer]] = field(default_factory=dict)
    """Pages by path, tried before those of `scrape_pages` and `site_pages`."""
    limit: int | None = None
    """Most requests to start in any second, per host; more get a 429 …"""
    limit_after: float | None = None
    """… with this `Retry-After`."""
    latency: float = 0.0
    port: int = 0

    def __post_init__(self) -> None:
        super().__init__(self.port)
        self.log: list[SiteVisit] = []
        self._outages: dict[str | None, Outage] = {}
        self._windows: dict[str, SlidingWindow] = {}
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await super().start()

    def url(self, path: str = "/", host: str = LOOPBACK) -> str:
        return f"http://{host}:{self.port}{path}"

    def set_robots(self, text: str, status: int = 200, *, delay: float = 0.0, **headers: str) -> None:
        """Header names are written with underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.robots = SiteAnswer(status, text.encode(), TEXT, named, delay)

    async def fail(self, outage: Outage | None, host: str | None = None) -> None:
        """Go down in one of several ways, as a whole or for one host name; None: be up again."""
        if host is None and (outage is Outage.REFUSED) == (self._server is not None):
            await (self.stop() if outage is Outage.REFUSED else self.start())
        self._outages.pop(host, None)
        if outage is not None:
            self._outages[host] = outage

    async def arrived(self, count: int) -> None:
        """Wait until that many requests have arrived."""
        if len(self.log) < count:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((count, future))
            await future

    def visits(self, path: str | None = None, host: str | None = None) -> list[SiteVisit]:
        return [visit for visit in self.log if path in (None, visit.path) and host in (None, visit.host)]

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        visit = self._write_down(request)
        outage = self._outages.get(visit.host) or self._outages.get(None)
        if outage is Outage.BLACK_HOLE:
            connection.when_lost = partial(self._end, visit, 0)
            return
        if outage in (Outage.RESET, Outage.REFUSED):
            self._end(visit, 0)
            connection.cut()
            return
        answer = self._answer(request, visit) if outage is None else SiteAnswer(500, page("500", "<h1>500</h1>").body)
        delay = answer.delay + self.latency
        if not delay:
            self._say(visit, request, answer, connection)
            return
        timer = self._loop.call_later(delay, self._say, visit, request, answer, connection)
        connection.when_lost = partial(self._gone, visit, timer)

    def _write_down(self, request: WireRequest) -> SiteVisit:
        host = request.headers.get(b"host", b"").decode("latin-1").rpartition(":")[0]
        visit = SiteVisit(
            len(self.log) + 1, time.monotonic(), time.time(), host, request.method, *request[1:3], request.headers
        )
        self.log.append(visit)
        for count, future in self._waiting:
            if count <= visit.n and not future.done():
                future.set_result(None)
        self._waiting = [(count, future) for count, future in self._waiting if not future.done()]
        return visit

    def _answer(self, request: WireRequest, visit: SiteVisit) -> SiteAnswer:
        if not self._windows.setdefault(visit.host, SlidingWindow()).admit(visit.at, self.limit):
            headers = {} if self.limit_after is None else retry_after(self.limit_after)
            return SiteAnswer(429, page("429", "<h1>Too Many Requests</h1>").body, headers=headers)
        if request.path == "/robots.txt":
            return self.robots
        answer = self.answers.get(request.path)
        if isinstance(answer, SiteAnswer):
            return answer
        return answer(request) if answer is not None else scrape_answer(request) or usual_answer(request)

    def _say(self, visit: SiteVisit, request: WireRequest, answer: SiteAnswer, connection: Connection) -> None:
        connection.when_lost = None
        self._end(visit, answer.status)
        if answer.padding:
            parts = chain((answer.body,), _padding(answer.padding))
            connection.send_long(answer.status, parts, len(answer.body) + answer.padding, _nothing, answer.kind)
            return
        more = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items()).encode("latin-1")
        connection.send(answer.status, b"" if request.method == "HEAD" else answer.body, answer.kind, more)

    def _gone(self, visit: SiteVisit, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        self._end(visit, 0)

    @staticmethod
    def _end(visit: SiteVisit, status: int) -> None:
        visit.status, visit.ended = status, time.monotonic()


def most_starts(visits: Iterable[SiteVisit], seconds: float) -> int:
    """Return the most requests that arrived in any window of that length; windows are half-open, as limits are."""
    window: deque[float] = deque()
    most = 0
    for at in sorted(visit.at for visit in visits):
        while window and window[0] <= at - seconds:
            window.popleft()
        window.append(at)
        most = max(most, len(window))
    return most


def most_in_flight(visits: Iterable[SiteVisit]) -> int:
    """Return the most requests that were under way at once."""
    moments = [
        moment
        for visit in visits
        for moment in ((visit.at, 1), (float("inf") if visit.ended is None else visit.ended, -1))
    ]
    now = most = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def _padding(size: int) -> Iterator[bytes]:
    yield from repeat(b"a" * _PART, size // _PART)
    yield b"a" * (size % _PART)


def _nothing() -> None:
    """Do nothing at the end of a long answer: no test waits for it."""
