"""The HTTP fetcher: sends one request and returns one complete answer, guarded and capped.

It must never retry (the engine decides), never follow a redirect that the guard has not checked, never write a secret
anywhere but into the request, and never let one answer block the event loop or fill the memory. Every task goes through
this code: keep it cheap.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from io import BytesIO
from time import monotonic
from typing import Any, Protocol

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from forager.core.clock import Clock, standing_still
from forager.core.errors import Permanent, ProxyFailed, Refused, Transient, Unconfigured
from forager.core.http import Cookie, Fetch, LoginRef, Request, Response, SecretRef, SessionRef, SignRef
from forager.core.proxies import ProxyEndpoint
from forager.core.secret import Secret
from forager.core.states import Reason
from forager.fetch.guard import EgressGuard
from forager.fetch.http.connect import Dialer, guarded_connector, map_errors, open_socket, shown
from forager.fetch.http.decode import stages, through, too_big
from forager.fetch.http.sessions import REDIRECTS, Hop, ProxySessions, next_hop
from forager.fetch.page_classifier import looks
from forager.fetch.proxies.tunnel import Way

# A response body that is being received.
#
# A bytearray or a list of parts would hold a body twice for a moment, when its bytes are put together: a decompression
# bomb could exploit that. `BytesIO` grows by remapping pages and gives its buffer away without a copy, and it merges
# tiny pieces, of which each as an object of its own would cost far more than its bytes.


class BodyBlocks:
    def __init__(self) -> None:
        self.size = 0
        self._buffer = BytesIO()

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._buffer.write(piece)

    def whole(self) -> bytes:
        return self._buffer.getvalue()


# Reports the moment at which a request is sent: after the connection is open, when its bytes are written.
#
# A lane counts by that moment. If it counted from the call, a request with a slow connection could arrive together with
# the requests of the next window.


leaving: ContextVar[Callable[[], None] | None] = ContextVar("leaving", default=None)
"""Set during one request, in its own task; aiohttp's writer task inherits it."""


class LeavingRequest(ClientRequest):
    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        answer = await super().send(conn)
        if not self.body:  # nothing more to write: the request has only headers
            _tell()
        return answer

    async def write_bytes(self, *handed: Any, **named: Any) -> None:
        _tell()
        await super().write_bytes(*handed, **named)


def _tell() -> None:
    told = leaving.get()
    if told is not None:
        told()


# Measures how long a site took, without the time spent waiting for a lane, which is not the site's.


class Stopwatch:
    """Runs from its creation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stood = 0.0
        self._waits = 0
        self._stopped_at = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the time while the block runs. Overlapping blocks (a page navigates while its last step still waits)
        count once."""
        if not self._waits:
            self._stopped_at = self._clock.monotonic()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._stood += self._clock.monotonic() - self._stopped_at

    @property
    def ms(self) -> int:
        return round((self._clock.monotonic() - self._began - self._stood) * 1000)


USER_AGENT = "forager/0.1"
ACCEPTED = "gzip, deflate, br, zstd"
MAX_HEADERS = 128
MAX_HEADER_LINE = 16 * 1024
READ_BUFFER = 64 * 1024
BREATH = 0.005  # seconds of decoding after which other tasks may run
CONNECT_TIMEOUT = 10.0
REMOVED = "***"
SHORTEST_REMOVED = 8
"""A shorter secret is not searched for in answers: it would be found in ordinary words."""

Secrets = Callable[[str], str | None]
Sign = Callable[[str, str, int, bytes], Mapping[str, str]]
"""(secret, message id, Unix time, body) → headers with the signature."""
EndpointOf = Callable[[int], ProxyEndpoint]
Send = Callable[[Hop], Awaitable[aiohttp.ClientResponse]]


class HttpFetcher:
    """Implements `core.http.Fetch` on aiohttp sessions. Create it inside a running loop; `close` it at the end.

    `endpoint_of` returns the endpoint of a proxy by its number; `tls` replaces the system's certificates.
    """

    def __init__(
        self,
        guard: EgressGuard,
        clock: Clock,
        secrets: Secrets,
        *,
        user_agent: str = USER_AGENT,
        limit: int = 100,
        endpoint_of: EndpointOf | None = None,
        sign: Sign | None = None,
        dialer: Dialer = open_socket,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._secrets = secrets
        self._endpoint_of = endpoint_of
        self._sign = sign
        self._user_agent = user_agent
        self._session = self._open_session(guarded_connector(guard, limit=limit, dialer=dialer, tls=tls))
        self._way, self._limit = Way(guard, dialer, tls), limit

    async def __call__(self, request: Request) -> Response:
        """Send one request. An answer of any status is a `Response`; `max_redirects=0` returns redirects unfollowed."""
        watch = Stopwatch(self._clock)
        told = leaving.set(request.on_leave)
        try:
            with map_errors(request.url):
                async with asyncio.timeout(request.timeout) as limit:
                    if request.proxy is None:
                        answer, body = await self._follow(request, self._send, limit, watch)
                    else:
                        answer, body = await self._follow_through(request, request.proxy, limit, watch)
        finally:
            leaving.reset(told)
        headers: Mapping[str, str] = answer.headers
        if request.auth is not None:
            headers, body = _without(self._secret(request, request.auth, bare=True), headers, body)
        return Response(
            url=str(answer.url),
            status=answer.status,
            headers=headers,
            body=body,
            at=self._clock.now(),
            elapsed_ms=watch.ms,
            looks=looks(answer.status, answer.headers, body) if request.site else "page",
        )

    async def close(self) -> None:
        await self._session.close()
        if "_proxied" in vars(self):
            await self._proxied.close()

    @cached_property
    def _proxied(self) -> ProxySessions:
        """The sessions through proxies, created by the first request that uses a proxy."""
        return ProxySessions(self._way, self._open_session, limit=self._limit)

    def _open_session(self, connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._user_agent, "Accept": "*/*", "Accept-Encoding": ACCEPTED},
            skip_auto_headers=("Content-Type",),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=LeavingRequest,
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEADER_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
            read_bufsize=READ_BUFFER,
        )
        # aiohttp sends a request a second time by itself when a kept connection turns out dead: a call that was
        # never counted. It has no public switch; its own test client turns it off in the same way.
        session._retry_connection = False  # noqa: SLF001
        return session

    def _send(self, hop: Hop) -> Awaitable[aiohttp.ClientResponse]:
        return self._session.request(hop.method, hop.url, headers=hop.headers, data=hop.body, allow_redirects=False)

    async def _follow_through(
        self, request: Request, proxy: int, limit: asyncio.Timeout, watch: Stopwatch
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Follow redirects through a proxy."""
        if self._endpoint_of is None:
            raise ProxyFailed(f"there is no proxy {proxy} here.")
        async with self._proxied.through(self._endpoint_of(proxy)) as proxied:
            send = proxied.sender(min(CONNECT_TIMEOUT, 0.8 * request.timeout))
            return await self._follow(request, send, limit, watch)

    async def _follow(
        self, request: Request, send: Send, limit: asyncio.Timeout, watch: Stopwatch
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Follow redirects. Returns the final answer and its body."""
        url = self._guard.check_url(request.url)
        hop = Hop(url, request.method.upper(), self._headers(request), request.body)
        for _ in range(request.max_redirects + 1):
            hop = _with_cookies(request, hop)
            answer = await send(hop)
            location = answer.headers.get("Location") if answer.status in REDIRECTS else None
            if not location or not request.max_redirects:
                return answer, await _body(answer, request.max_bytes)
            answer.release()
            hop = next_hop(hop, answer.status, location)
            self._admit(hop.url)
            if request.on_hop:
                with watch.stopped(), standing_still(limit):  # waiting for a lane does not count towards the time-out
                    await request.on_hop(str(hop.url))
        message = f"it redirects more than {request.max_redirects} times."
        raise Refused(message, reason=Reason.TOO_MANY_REDIRECTS)

    def _admit(self, url: URL) -> None:
        """Check a redirect's target with the guard, like any request."""
        try:
            self._guard.check_url(url)
        except Refused as error:
            raise Refused(f"it redirects to {shown(url)}: {error.message}") from None

    def _headers(self, request: Request) -> dict[str, str]:
        if request.sign:
            return {**request.headers, **self._signature(request, request.sign)}
        if not request.auth:
            return dict(request.headers)
        own = request.auth.header.lower()
        headers = {name: value for name, value in request.headers.items() if name.lower() != own}
        headers[request.auth.header] = self._secret(request, request.auth)
        return headers

    def _signature(self, request: Request, ref: SignRef) -> Mapping[str, str]:
        if request.max_redirects or request.auth or self._sign is None:
            raise ValueError("what is signed follows no redirect and carries no other secret.")
        return self._sign(self._known(ref.name), ref.id, int(self._clock.now().timestamp()), request.body or b"")

    def _known(self, name: str) -> str:
        value = self._secrets(name)
        if not value:
            raise Unconfigured(f"{name} is not set. Set it, restart Forager if it runs, and resume the job.")
        return value

    def _secret(self, request: Request, ref: SecretRef, *, bare: bool = False) -> str:
        """Return the value of the header; `bare`: without its prefix."""
        prefix = "" if bare else ref.prefix
        if ref.of_job:
            if request.job_secret is None:
                raise Permanent(f"The job has no {ref.name} any more. Retry the job with a new one.")
            return prefix + request.job_secret.reveal()
        value = self._known(ref.name)
        if not value.isprintable() or not value.isascii():
            raise Unconfigured(
                f"{ref.name} contains characters that a header cannot have. Set it again and resume the job."
            )
        return prefix + value


def _without(secret: str, headers: Mapping[str, str], body: bytes) -> tuple[Mapping[str, str], bytes]:
    """Remove the secret from an answer that repeats it: answers are kept as evidence, and quoted in messages."""
    if len(secret) < SHORTEST_REMOVED:
        return headers, body
    for value in headers.values():  # a plain loop: every answer of an API passes here
        if secret in value:
            headers = CIMultiDict((name, value.replace(secret, REMOVED)) for name, value in headers.items())
            break
    text = secret.encode()
    return headers, body.replace(text, REMOVED.encode()) if text in body else body


def _with_cookies(request: Request, hop: Hop) -> Hop:
    """Add the cookies that belong to this hop's host, and no others."""
    if not request.cookies:
        return hop
    own = [each for each in request.cookies if each.belongs_to(hop.url.raw_host or "", hop.url.scheme)]
    headers = {name: value for name, value in hop.headers.items() if name.lower() != "cookie"}
    if own:
        headers["Cookie"] = "; ".join(f"{each.name}={each.value.reveal()}" for each in own)
    return replace(hop, headers=headers)


async def _body(answer: aiohttp.ClientResponse, cap: int) -> bytes:
    """Return the decoded body. Both the received and the decoded size are capped."""
    try:
        if answer.status == 101:
            message = "the server switched to another protocol without a request for it."
            raise Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)
        encoding = answer.headers.get("Content-Encoding")
        return await (_unpacked(answer, encoding, cap) if encoding else _plain(answer, cap))
    except BaseException:
        answer.close()  # the rest of the body is unread: this connection cannot be used again
        raise


async def _plain(answer: aiohttp.ClientResponse, cap: int) -> bytes:
    content = answer.content
    if (answer.content_length or 0) > cap and not content.at_eof():
        raise too_big(cap)
    first = await content.readany()
    if content.at_eof() and len(first) <= cap:
        return first
    body, breath = BodyBlocks(), monotonic()
    body.add(first)
    while body.size <= cap:
        if not (chunk := await content.readany()):
            return body.whole()
        body.add(chunk)
        # Data that arrived in tiny chunks is decoded inside of `readany`, which does not wait while there is more.
        breath = await _breathe(breath)
    raise too_big(cap)


async def _breathe(since: float) -> float:
    """Let other tasks run if this one has computed for long. Returns since when it has."""
    if monotonic() - since <= BREATH:
        return since
    await asyncio.sleep(0)
    return monotonic()


async def _unpacked(answer: aiohttp.ClientResponse, encoding: str, cap: int) -> bytes:
    chain = stages(encoding, cap)
    if not chain:
        return await _plain(answer, cap)
    wire_cap = cap + cap // 100 + 1024  # compressing incompressible data adds a little
    body, wire, breath = BodyBlocks(), 0, monotonic()  # not the loop's time, which uvloop updates once per iteration
    while chunk := await answer.content.readany():
        wire += len(chunk)
        if wire > wire_cap:
            raise too_big(cap)
        for piece in through(chain, chunk):
            body.add(piece)
            breath = await _breathe(breath)
        breath = await _breathe(breath)
    for stage in chain:
        stage.finish()
    return body.whole()


# Combines the HTTP fetcher and the browser fetcher; `render` in the request selects one. The engine handles `auto`.


Logins = Callable[[LoginRef], Awaitable[tuple[Cookie, ...]]]


class PageSessions(Protocol):
    """Keeps the cookies and the storage of named sessions from one visit to the next."""

    async def load(self, session: SessionRef) -> Secret | None:
        """Return the state of a session; None for a new one."""
        ...

    async def save(self, session: SessionRef, state: Secret) -> None: ...


class Fetcher:
    """Implements `core.http.Fetch` over both. `auto` must never arrive here, because each of its two requests counts
    separately.

    `logins` looks up a login; without it, every page is requested anonymously. `sessions` keeps named sessions, and
    `via` sends what the lane wants to be sent through the unblocking service.
    """

    def __init__(
        self,
        http: Fetch,
        browser: Fetch,
        logins: Logins | None = None,
        sessions: PageSessions | None = None,
        via: Fetch | None = None,
    ) -> None:
        self._http = http
        self._browser = browser
        self._logins = logins
        self._sessions = sessions
        self._via = via
        self._turns: dict[SessionRef, asyncio.Lock] = {}

    async def __call__(self, request: Request) -> Response:
        if request.via and self._via is not None:
            return await self._via(request)
        if request.login is not None and self._logins is not None:
            request = replace(request, cookies=await self._logins(request.login))
        match request.render:
            case "http":
                return await self._http(request)
            case "browser" if request.session is not None:
                return await self._in_session(request, request.session)
            case "browser":
                return await self._browser(request)
            case "auto":
                raise ValueError(
                    "`auto` is two requests, http and then browser: the caller must send each of them itself."
                )

    async def _in_session(self, request: Request, session: SessionRef) -> Response:
        """Visit a page with the state of a session, and keep the state that it ends with.

        Visits of one session come one after another in a process: of two at once, the later end would undo what the
        other has kept.
        """
        if self._sessions is None:
            raise Unconfigured("This worker has no store of sessions.")
        turn = self._turns.setdefault(session, asyncio.Lock())
        try:
            async with turn:
                state = await self._sessions.load(session)
                response = await self._browser(replace(request, state=state))
                if response.state is not None:
                    await self._sessions.save(session, response.state)
                return replace(response, state=None)
        finally:
            if not turn.locked():
                self._turns.pop(session, None)
