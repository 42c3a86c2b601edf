"""The `Fetch` that a step gets: every request passes through its lane before it is sent.

The order is always the same: robots.txt, the lane's hours, its breaker, its rate, a proxy. A short wait happens here;
for a long one the task returns to the queue, where it occupies no slot and burns no attempt. Nothing here retries.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from forager.core.clock import TimeLimit
from forager.core.errors import (
    BrowserCrashed,
    CircuitOpen,
    Disallowed,
    Permanent,
    ProxyFailed,
    RateLimited,
    Refused,
    SealBroken,
    Transient,
    Unconfigured,
)
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request, Response
from forager.core.ledger import Away
from forager.core.pipeline import WhenOpen
from forager.core.proxies import Proxies
from forager.core.reading import LIMIT, InThread, Offload
from forager.core.recording import Player, RecordedTask, Recorder
from forager.core.rules import Robots
from forager.core.secret import JobSecrets, Secret
from forager.core.states import ErrorType, Reason
from forager.core.storage import SCHEME, Blobs
from forager.engine.lanes.lane import LaneRun
from forager.engine.waits import AT_ONCE, BUSY, ELSEWHERE, LONGEST_TAIL, LONGEST_WAIT_INSIDE

if TYPE_CHECKING:
    from forager.core.tracing import AttemptTrace, Tracer

T = TypeVar("T")

# The secret of a job at the moment of sending, and what happens if it does not open.


async def secret_of_job(secrets: JobSecrets | None, job: int, name: str) -> Secret | None:
    """Return a job's secret; None if it has none.

    Raises `Unconfigured`, which pauses the job, if the secret does not open: only a person can restore the key.
    """
    if secrets is None:
        return None
    try:
        return await secrets.of(job, name)
    except SealBroken as error:
        raise Unconfigured(
            f"The job's {name} does not open: {error.message} Restore the key (FORAGER_SECRET_KEY or secret.key) and"
            " resume the job, or cancel it and start another."
        ) from error


# Remembers the answers that a task received before it had to be put back in the middle, so that it does not request
# them again.
#
# The cache belongs to one worker process and is bounded: what is dropped is simply fetched again.


MOST_BYTES = 32 * 1024 * 1024
MOST_PER_TASK = 8 * 1024 * 1024
PER_ENTRY = 1_024


@dataclass(slots=True)
class Progress:
    """The progress of a task."""

    answers: list[tuple[Request, Response]] = field(default_factory=list)
    hops: list[tuple[Request, str, int]] = field(default_factory=list)
    """Partly followed redirects, by request: the URL reached, and the number of hops."""
    size: int = 0

    def answered(self, request: Request, response: Response) -> None:
        size = len(response.body) + len(response.screenshot or b"") + PER_ENTRY
        if self.size + size <= MOST_PER_TASK:
            self.size += size
            self.answers.append((request, response))

    def take_answer(self, request: Request) -> Response | None:
        """Return a remembered answer once: a step that repeats a request gets a fresh answer."""
        for number, (asked, response) in enumerate(self.answers):
            if asked == request:
                del self.answers[number]
                return response
        return None

    def hop_of(self, request: Request) -> tuple[str, int] | None:
        return next(((url, count) for asked, url, count in self.hops if asked == request), None)

    def hopped(self, request: Request, url: str, count: int) -> None:
        self.hops = [hop for hop in self.hops if hop[0] != request]
        self.hops.append((request, url, count))
        self.size += PER_ENTRY


class Memo:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[int, Progress] = OrderedDict()

    def keep(self, task: int, progress: Progress) -> None:
        """Keep the progress until the task runs again, or until newer ones need the space."""
        self.take(task)
        if not progress.size:
            return
        self._kept[task] = progress
        self._size += progress.size
        while self._size > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size

    def take(self, task: int) -> Progress:
        progress = self._kept.pop(task, None)
        if progress is None:
            return Progress()
        self._size -= progress.size
        return progress


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
    """Return the exception for a request that would wait too long for its lane. In its own lane it is ready again at
    once, so that it keeps its turn: the lane leases nothing before it can send."""
    return MustSnooze(0.0 if is_own else wait, f"The next request to {lane.name} is not due yet.", reason=Reason.RATE)


class TooLate(Exception):
    """The session's lease has expired, so another worker may have this task: nothing may be sent."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Parts outside the engine that the requests of steps use."""

    fetch: Fetch
    robots: Robots | None = None
    proxies: Proxies | None = None
    job_secrets: JobSecrets | None = None
    blobs: Blobs | None = None
    offload: Offload = field(default_factory=InThread)
    recorder: Recorder | None = None
    """Writes answers down; None: no job is recorded."""
    player: Player | None = None
    """Answers every request from a recording, in place of the network, the lanes and robots.txt."""
    tracer: "Tracer | None" = None
    """Collects traces; None: no time is measured."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Parts of a worker that all of its tasks use."""

    resources: Resources
    may_send: Callable[[], bool]
    lane_of: Callable[[str, LaneRun], Awaitable[LaneRun | Away]]
    """Returns the lane of a URL, if this worker owns it or can take it. The second argument is the task's own lane."""
    wake: Callable[[], object] = lambda: None
    """Called when a lane has room again although none of its own tasks has ended."""
    uses: Callable[[LaneRun, str], object] = lambda lane, pipeline: None
    """Called before a task of this pipeline sends a request through the lane."""


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
        task: RecordedTask | None = None,
    ) -> None:
        self.around = around
        self.lane = lane
        self._task = task
        """Set while answers are recorded or replayed."""
        self.trace: AttemptTrace | None = None
        """Set while this attempt is traced."""
        self._job = job
        self._pipeline = pipeline
        self._ticket = lane.ticket()
        self._is_planned = is_planned
        """True if a moment is planned for a request that this task has not sent yet."""
        self._when_open = when_open
        self._before = progress or Progress()
        """Progress of an earlier attempt that had to wait in the middle."""
        self.progress = Progress()
        """Progress of this attempt."""
        self.sent = False
        self.proxy: int | None = None
        """The proxy of the last request."""
        self.slowed = False
        """True if the lane has already been slowed down for the current 429."""
        self.limit: TimeLimit | None = None
        """The step's time-out. Waiting for a lane does not count."""
        self.seconds_in_lane = 0.0
        """Time that requests of this task have waited for their lanes, robots.txt included."""
        self.seconds_fetching = 0.0
        """Time between sending requests and having their answers."""

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
        offload = self.around.resources.offload
        return offload if self.trace is None else _TracedOffload(offload, self.trace)

    async def _read(self, blob: str) -> Response:
        """Read a stored page. It needs no lane, so the planned slot in the lane is released."""
        self.give_place_back()
        return await self._blobs().read(blob)

    def give_place_back(self) -> None:
        """Release the slot in the lane that was planned for this task, if it has not used it."""
        if self._is_planned:
            self._is_planned = False
            self.lane.give_place_back()

    def _blobs(self) -> Blobs:
        if self.around.resources.blobs is None:
            raise Unconfigured("This worker has no storage for pages.")
        return self.around.resources.blobs

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
        if self._task is None:
            return await self._sent(asked, robots=robots, first_look=first_look)
        if (player := self.around.resources.player) is not None:
            self.give_place_back()
            return await player(self._task, asked)
        recorder = self.around.resources.recorder
        try:
            response = await self._sent(asked, robots=robots, first_look=first_look)
        except (Transient, Permanent, Disallowed) as error:
            if recorder is not None:
                await recorder.failed(self._task, asked, error)
            raise
        if recorder is not None:
            await recorder.answered(self._task, asked, response)
        return response

    async def _sent(self, asked: Request, *, robots: bool, first_look: bool) -> Response:
        request, hops = self._resumed(asked)
        if request.auth is not None and request.auth.of_job:
            secret = await secret_of_job(self.around.resources.job_secrets, self._job, request.auth.name)
            request = replace(request, job_secret=secret)
        asked_at = self.lane.monotonic()
        lane = await self.lane_of(request.url) if self.lane.policy.site else self.lane
        if robots and lane.policy.robots:
            await self.obey_robots(lane, request.url)
        way = _Way(self, lane, asked, hops, robots=robots)
        try:
            if (trace := self.trace) is not None:
                response = await self._traced(trace, lane, way, request, asked_at if robots else None)
            else:
                proxy = await way.enter(lane, LONGEST_WAIT_INSIDE)
                sent_at = self.lane.monotonic()
                if robots:  # the request for robots.txt is a part of its page's wait
                    self.seconds_in_lane += sent_at - asked_at
                response = await self.around.resources.fetch(self._prepared(request, lane, way, proxy))
                if robots:
                    self.seconds_fetching += self.lane.monotonic() - sent_at
            way.left()  # the upstream has answered, so it received the request
            way.answered(response, first_look=first_look)
            return response
        except BaseException as error:
            way.failed(error)
            raise
        finally:
            way.close()

    async def _traced(
        self, trace: "AttemptTrace", lane: LaneRun, way: "_Way", request: Request, asked_at: float | None
    ) -> Response:
        """Enter the lane and send the request, and note how long each took. `asked_at`: None for robots.txt, which is
        a part of its page's wait."""
        began = trace.now()
        try:
            proxy = await way.enter(lane, LONGEST_WAIT_INSIDE)
        finally:
            trace.add("wait", began, **{"forager.reason": "lane", "forager.lane": lane.name})
        sent_at = self.lane.monotonic()
        if asked_at is not None:
            self.seconds_in_lane += sent_at - asked_at
        began, status = trace.now(), 0
        try:
            response = await self.around.resources.fetch(self._prepared(request, lane, way, proxy))
            status = response.status
        finally:
            told = {"server.address": urlsplit(request.url).hostname or "", "http.request.method": request.method}
            trace.add("fetch", began, **told, **({"http.response.status_code": status} if status else {}))
        if asked_at is not None:
            self.seconds_fetching += self.lane.monotonic() - sent_at
        return response

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
        return request.to_site(proxy, block, delay, way.left, way.hop, via=policy.via)

    async def obey_robots(self, lane: LaneRun, url: str) -> None:
        if self.around.resources.robots is None:
            return
        verdict = await self.around.resources.robots.ask(url, lambda request: self._send(request, robots=False))
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
                f"{_host(url)} does not allow this URL. With permission to read it: "
                f"forager lanes set {lane.name} --no-robots"
            )
        lane.obey_crawl_delay(_origin(url), verdict.crawl_delay)

    async def lane_of(self, url: str) -> LaneRun:
        lane = await self.around.lane_of(url, self.lane)
        if isinstance(lane, LaneRun):
            self.around.uses(lane, self._pipeline)
        else:
            gone = lane is Away.ELSEWHERE
            cause = f"Another worker owns the lane of {_host(url)}" if gone else f"The lane of {_host(url)} is paused"
            why = f"{cause}. Retrying in {ELSEWHERE:g} s."
            raise MustSnooze(ELSEWHERE, why, in_vain=gone, reason=Reason.LANE_AWAY)
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
            raise MustSnooze(closed, f"{lane.name} is outside its allowed hours, or paused.")
        if wait := lane.circuit_wait():
            if self._when_open == "fail":
                raise CircuitOpen(f"{lane.name} failed too often; no request is sent for another {wait:.0f} s.")
            why = f"{lane.name} failed too often; no request is sent for a while."
            raise MustSnooze(wait, why, in_vain=True, reason=Reason.CIRCUIT_OPEN, error_type=ErrorType.BLOCKED)


class _TracedOffload:
    """Readers that note how long each page took."""

    def __init__(self, offload: Offload, trace: "AttemptTrace") -> None:
        self._offload = offload
        self._trace = trace

    async def __call__(self, work: Callable[..., T], page: bytes, /, *args: Any, limit: float = LIMIT) -> T:
        began = self._trace.now()
        try:
            return await self._offload(work, page, *args, limit=limit)
        finally:
            told = {"code.function.name": getattr(work, "__name__", "read"), "forager.bytes": len(page)}
            self._trace.add("read", began, **told)


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
                raise MustSnooze(AT_ONCE, f"{lane.name} now belongs to another worker.")
            if lane.room(1) == 0:
                raise MustSnooze(BUSY, f"{lane.name} has reached its limit of requests in flight.")
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
                raise MustSnooze(
                    AT_ONCE, f"{lane.name} is reached through a proxy: the redirect is followed through it."
                )
            if lane.policy.via and self._can_resume():
                raise MustSnooze(AT_ONCE, f"{lane.name} is reached through the unblocking service.")
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
        proxies = self._fetch.around.resources.proxies
        if isinstance(error, ProxyFailed) and proxies is not None and self._proxy is not None:
            proxies.failed(self._proxy)
        its_fault = isinstance(error, Transient) and not isinstance(error, ProxyFailed | RateLimited | BrowserCrashed)
        self._lane.call_ended(self._call, well=False if its_fault else None)
        self._call = None

    def answered(self, response: Response, *, first_look: bool = False) -> None:
        """Record an answer. With `first_look`, a bot challenge counts as success, because a browser comes next."""
        lane, status = self._lane, response.status
        proxies = self._fetch.around.resources.proxies
        if self._proxy is not None and proxies is not None:
            proxies.succeeded(self._proxy, elapsed_ms=response.elapsed_ms, size=len(response.body))
        lane.counts.requests += 1
        lane.counts.bytes += len(response.body)
        lane.counts.answered_at.append(lane.monotonic())
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
            raise RateLimited(f"{lane.name} limited the rate of calls ({status}).", retry_after=told)

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
        proxies = self._fetch.around.resources.proxies
        if proxies is None or lane.policy.via or not lane.policy.proxied:
            return None
        proxy, rest = proxies.choose(lane.proxy_rests)
        if rest > 0:
            raise MustSnooze(rest, f"All proxies rest for {lane.name}.")
        return proxy


def _origin(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}"


def _host(url: str) -> str:
    return host_of(url) or "the site"
