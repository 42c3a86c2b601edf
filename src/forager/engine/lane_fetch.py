"""The `Fetch` that a step gets: every request passes through its lane before it is sent.

The order is always the same: robots.txt, the lane's hours, its breaker, its rate, a proxy. A short wait happens here;
for a long one the task returns to the queue, where it occupies no place and burns no attempt. Nothing here retries.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from forager.core.blobs import SCHEME, Blobs
from forager.core.errors import (
    BrowserCrashed,
    CircuitOpen,
    Disallowed,
    ProxyFailed,
    RateLimited,
    Refused,
    Transient,
    Unconfigured,
)
from forager.core.http import Fetch, Request, Response
from forager.core.ledger import Away
from forager.core.offload import InThread, Offload
from forager.core.pipeline import WhenOpen
from forager.core.proxies import Proxies
from forager.core.reasons import ErrorType, Reason
from forager.core.robots import Robots
from forager.core.secret import JobSecrets
from forager.core.timing import TimeLimit
from forager.engine.job_secret import secret_of_job
from forager.engine.lane import LaneRun
from forager.engine.resume_cache import Progress

LONGEST_WAIT_INSIDE = 5.0
"""A request that would wait longer than this for its lane snoozes its task."""
LONGEST_TAIL = 60.0
"""Maximum wait of a request that cannot be resumed later, such as a redirect with its own headers."""
ELSEWHERE = 5.0
"""Seconds until a task is tried again whose request needs a lane that another worker owns."""
BUSY = 1.0
AT_ONCE = 0.05

NO_ADDRESS = "about:blank"
"""The address of a file that is stored for its bytes alone."""


class MustSnooze(Exception):
    """The task must wait. `in_vain`: for something that may never recover, unlike hours, a rate or a pause."""

    def __init__(
        self,
        wait: float,
        why: str,
        *,
        in_vain: bool = False,
        reason: Reason | None = None,
        error_type: ErrorType | None = None,
    ) -> None:
        self.wait = wait
        self.why = why
        self.in_vain = in_vain
        self.reason = reason
        self.error_type = error_type


def not_due(lane: LaneRun, wait: float, *, is_own: bool) -> MustSnooze:
    """Return what a task raises whose request would wait too long for its lane. In its own lane it is ready again at
    once, so that it keeps its place: the lane leases nothing before it can send."""
    return MustSnooze(0.0 if is_own else wait, f"The next request to {lane.name} is not due yet.", reason=Reason.RATE)


class TooLate(Exception):
    """The session's lease has expired, so another worker may have this task: nothing may be sent."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker provides to all of its tasks."""

    fetch: Fetch
    may_send: Callable[[], bool]
    lane_of: Callable[[str, LaneRun], Awaitable[LaneRun | Away]]
    """Returns the lane of a URL, if this worker owns it or can take it. The second argument is the task's own lane."""
    robots: Robots | None = None
    proxies: Proxies | None = None
    job_secrets: JobSecrets | None = None
    wake: Callable[[], object] = lambda: None
    """Called when a lane has room again although none of its own tasks has ended."""
    uses: Callable[[LaneRun, str], object] = lambda lane, pipeline: None
    """Called before a task of this pipeline sends a request through the lane."""
    blobs: Blobs | None = None
    offload: Offload = field(default_factory=InThread)


class LaneFetch:
    """The `Fetch` of one task."""

    def __init__(
        self,
        around: Surroundings,
        lane: LaneRun,
        is_planned: bool,
        *,
        when_open: WhenOpen = "snooze",
        progress: Progress | None = None,
        job: int = 0,
        pipeline: str = "",
    ) -> None:
        self.around = around
        self.lane = lane
        self._job = job
        self._pipeline = pipeline
        self._ticket = lane.ticket()
        self._is_planned = is_planned
        """Whether a moment is planned for a request that this task has not sent yet."""
        self._when_open = when_open
        self._before = progress or Progress()
        """Progress of an earlier attempt that had to wait in the middle."""
        self.progress = Progress()
        """Progress of this attempt."""
        self.sent = False
        self.proxy: int | None = None
        """The proxy of the last request."""
        self.slowed = False
        """Whether the lane has already been slowed down for the current 429."""
        self.limit: TimeLimit | None = None
        """The step's time-out. Waiting for a lane does not count."""

    async def __call__(self, request: Request) -> Response:
        if request.url.startswith(SCHEME):
            return await self._read(request.url)
        response = await self._page(request)
        if request.keep and response.body:
            kept = replace(response, url=NO_ADDRESS) if request.keep == "bytes" else response
            return response.stored_as(await self._blobs().keep(kept))
        return response

    @property
    def offload(self) -> Offload:
        """Runs a function in another process, for a page that is too heavy for this one."""
        return self.around.offload

    async def _read(self, blob: str) -> Response:
        """Read a stored page. It needs no lane, so the planned place in the lane is released."""
        self.give_place_back()
        return await self._blobs().read(blob)

    def give_place_back(self) -> None:
        """Release the place in the lane that was planned for this task, if it has not used it."""
        if self._is_planned:
            self._is_planned = False
            self.lane.give_place_back()

    def _blobs(self) -> Blobs:
        if self.around.blobs is None:
            raise Unconfigured("This worker has no place to store pages in.")
        return self.around.blobs

    async def _page(self, request: Request) -> Response:
        if request.render != "auto":
            return await self._answer(request)
        plain = await self._answer(replace(request, render="http"), first_look=True)
        if plain.looks not in ("empty_shell", "challenge"):
            return plain
        if plain.looks == "empty_shell" and request.enough is not None and await request.enough(plain):
            return plain
        return await self._answer(replace(request, render="browser"))

    async def _answer(self, request: Request, *, first_look: bool = False) -> Response:
        if not self.lane.policy.site:
            return await self._send(request)
        response = self._before.take_answer(request) or await self._send(request, first_look=first_look)
        self.progress.answered(request, response)
        return response

    async def _send(self, asked: Request, *, robots: bool = True, first_look: bool = False) -> Response:
        """Send a request through the lane of its URL, or through the task's own lane if that is an API's."""
        request, hops = self._resumed(asked)
        if request.auth is not None and request.auth.of_job:
            secret = await secret_of_job(self.around.job_secrets, self._job, request.auth.name)
            request = replace(request, job_secret=secret)
        lane = await self.lane_of(request.url) if self.lane.policy.site else self.lane
        if robots and lane.policy.robots:
            await self.obey_robots(lane, request.url)
        way = _Way(self, lane, asked, hops, robots=robots)
        try:
            proxy = await way.enter(lane, LONGEST_WAIT_INSIDE)
            response = await self.around.fetch(self._prepared(request, lane, way, proxy))
            way.left()  # the upstream has answered, so it received the request
            way.answered(response, first_look=first_look)
            return response
        except BaseException as error:
            way.failed(error)
            raise
        finally:
            way.close()

    def _resumed(self, request: Request) -> tuple[Request, int]:
        """Continue a redirect chain where an earlier attempt stopped."""
        hop = self._before.hop_of(request) if self._before.hops else None
        if hop is None:
            return request, 0
        url, hops = hop
        if hops > request.max_redirects:
            message = f"{_host(request.url)}: it redirects more than {request.max_redirects} times."
            raise Refused(message, reason=Reason.TOO_MANY_REDIRECTS)
        return replace(request, url=url, max_redirects=request.max_redirects - hops), hops

    @staticmethod
    def _prepared(request: Request, lane: LaneRun, way: "_Way", proxy: int | None) -> Request:
        """Return the request with the settings of its lane."""
        policy = lane.policy
        if not policy.site:
            return request.telling(way.left)
        block, delay = policy.block | request.block, policy.delay or (0.0, 0.0)
        return request.to_site(proxy, block, delay, way.left, way.hop)

    async def obey_robots(self, lane: LaneRun, url: str) -> None:
        if self.around.robots is None:
            return
        verdict = await self.around.robots.ask(url, lambda request: self._send(request, robots=False))
        if verdict.ask_again_in is not None:
            unread = f"The robots.txt of {_host(url)} cannot be read now."
            if (
                self._when_open == "fail"
            ):  # the step does not wait: it fails like any other attempt, and is retried a few times
                raise Transient(unread, reason=Reason.ROBOTS_UNREADABLE)
            raise MustSnooze(
                verdict.ask_again_in,
                unread,
                in_vain=True,
                reason=Reason.ROBOTS_UNREADABLE,
                error_type=ErrorType.NETWORK,
            )
        if not verdict.allowed:
            raise Disallowed(
                f"{_host(url)} does not allow this URL. An operator who may read it can say so: "
                f"forager lanes set {lane.name} --no-robots"
            )
        lane.obey_crawl_delay(_origin(url), verdict.crawl_delay)

    async def lane_of(self, url: str) -> LaneRun:
        lane = await self.around.lane_of(url, self.lane)
        if isinstance(lane, LaneRun):
            self.around.uses(lane, self._pipeline)
        else:
            why = f"The lane of {_host(url)} cannot be had: {lane.value}."
            raise MustSnooze(ELSEWHERE, why, in_vain=lane is Away.ELSEWHERE, reason=Reason.LANE_AWAY)
        return lane

    async def wait(self, lane: LaneRun, longest: float) -> None:
        """Wait until the lane admits a request. The wait does not count towards the step's time-out."""
        is_own = lane is self.lane
        if is_own and self._is_planned:
            self._is_planned = False
        else:
            lane.plan_request()
        ticket = self._ticket if is_own else lane.ticket()
        if lane.start_at_once(ticket):
            return  # most requests need not wait, so the time-out is not touched
        limit = self.limit if lane.policy.site else None
        if limit is not None:
            limit.stop()
        try:
            too_long = await lane.wait_to_send(ticket, longest)
        finally:
            if limit is not None:
                limit.go_on()
        if too_long:
            raise not_due(lane, too_long, is_own=is_own)

    def refuse_if_closed(self, lane: LaneRun) -> None:
        """Raise if the lane is outside its hours or its breaker is open."""
        if closed := lane.closed_for():
            raise MustSnooze(closed, f"{lane.name} may not be asked now: it is outside its hours, or switched off.")
        if wait := lane.circuit_wait():
            if self._when_open == "fail":
                raise CircuitOpen(f"{lane.name} failed too often; it is left alone for another {wait:.0f} s.")
            why = f"{lane.name} failed too often; it is left alone for a while."
            raise MustSnooze(wait, why, in_vain=True, reason=Reason.CIRCUIT_OPEN, error_type=ErrorType.BLOCKED)


class _Way:
    """One request and its redirects. Each hop counts in its own lane, and each lane is informed of the result."""

    def __init__(self, fetch: LaneFetch, lane: LaneRun, asked: Request, hops: int, *, robots: bool) -> None:
        self._fetch = fetch
        self._lane = lane
        self._asked = asked
        self._hops = hops
        self._robots = robots
        self._entered = False
        self._may_leave = False
        self._call: int | None = None
        self._guest = False
        self._proxy: int | None = None

    async def enter(self, lane: LaneRun, longest: float) -> int | None:
        """Wait for the lane. Returns the proxy to use, or None."""
        fetch, self._lane = self._fetch, lane
        if lane is not fetch.lane:
            if not lane.ours:  # given back while we read its robots.txt
                raise MustSnooze(AT_ONCE, f"{lane.name} has gone to another worker.")
            if lane.room(1) == 0:
                raise MustSnooze(BUSY, f"{lane.name} has as many requests in flight as it may.")
            lane.in_flight += 1
            self._guest = True
        fetch.refuse_if_closed(lane)
        await fetch.wait(lane, longest)
        self._may_leave = True
        if not fetch.around.may_send():
            raise TooLate
        fetch.refuse_if_closed(lane)  # it may have opened while we waited
        self._call = lane.enter_circuit()
        if not self._entered:  # a redirect uses the same proxy as its first request
            self._entered = True
            self._proxy = fetch.proxy = self._choose_proxy(lane)
        return self._proxy

    async def hop(self, url: str) -> None:
        """Follow a redirect: its target is another request, possibly in another lane."""
        self.left()
        self._over(well=True)
        self._hops += 1
        try:
            lane = await self._fetch.lane_of(url)
            if self._robots and lane.policy.robots:
                await self._fetch.obey_robots(lane, url)
            if lane.policy.proxied and not self._lane.policy.proxied and self._can_resume():
                raise MustSnooze(AT_ONCE, f"{lane.name} is asked through a proxy: the redirect goes on that way.")
            await self.enter(lane, LONGEST_TAIL)
        except MustSnooze:
            if self._can_resume():
                self._fetch.progress.hopped(self._asked, url, self._hops)
            raise

    def _can_resume(self) -> bool:
        """Return whether a redirect may be resumed later: not with own headers or a body, which could reach another
        origin."""
        asked = self._asked
        return asked.method in ("GET", "HEAD") and not (asked.headers or asked.auth or asked.body or asked.login)

    def left(self) -> None:
        if self._may_leave:
            self._may_leave = False
            self._fetch.sent = True
            self._lane.left()
            if self._proxy is not None:
                self._lane.proxy_left(self._proxy)

    def failed(self, error: BaseException) -> None:
        """Record a failure. It counts against the site, unless the proxy or this process caused it."""
        proxies = self._fetch.around.proxies
        if isinstance(error, ProxyFailed) and proxies is not None and self._proxy is not None:
            proxies.failed(self._proxy)
        its_fault = isinstance(error, Transient) and not isinstance(error, ProxyFailed | RateLimited | BrowserCrashed)
        self._lane.call_ended(self._call, well=False if its_fault else None)
        self._call = None

    def answered(self, response: Response, *, first_look: bool = False) -> None:
        """Record an answer. With `first_look`, a bot challenge counts as success, because a browser comes next."""
        lane, status = self._lane, response.status
        proxies = self._fetch.around.proxies
        if self._proxy is not None and proxies is not None:
            proxies.succeeded(self._proxy, elapsed_ms=response.elapsed_ms, size=len(response.body))
        lane.counts.requests += 1
        if status == 429:
            lane.counts.rate_limited += 1
        told = response.retry_after() if status in (429, 503) else None
        challenged = first_look and response.looks == "challenge"
        slow = not challenged and (status == 429 or (status == 503 and told is not None))
        well = challenged or (status < 500 and response.looks != "block")
        lane.call_ended(self._call, well=None if slow else well)
        self._call = None
        if slow and lane.policy.site:
            lane.slow_down(told)
            self._fetch.slowed = True
            raise RateLimited(f"{lane.name} asked for fewer calls ({status}).", retry_after=told)

    def close(self) -> None:
        """Release everything, however the request ended."""
        self._over(well=None)

    def _over(self, *, well: bool | None) -> None:
        if self._may_leave:
            self._may_leave = False
            self._lane.gave_up()
        if self._call is not None:
            self._lane.call_ended(self._call, well=well)
            self._call = None
        if self._guest:
            self._guest = False
            self._lane.in_flight -= 1
            self._lane.hungry = True
            self._fetch.around.wake()

    def _choose_proxy(self, lane: LaneRun) -> int | None:
        proxies = self._fetch.around.proxies
        if proxies is None or not lane.policy.proxied:
            return None
        proxy, rest = proxies.choose(lane.proxy_rests)
        if rest > 0:
            raise MustSnooze(rest, f"All proxies rest for {lane.name}.")
        return proxy


def _origin(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the site"
