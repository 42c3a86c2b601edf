"""HTTP sessions through proxies: one per proxy, opened at first use, closed when no longer used.

Proxies share no connection, so that one proxy's credentials can never reach another. An https target, and any target of
a SOCKS5 proxy, is reached through a tunnel to a checked address. A plain http target through an HTTP proxy can only be
sent as a URL: it is checked here first, but the proxy resolves the name again, in its own network.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from yarl import URL

from forager.core.errors import Refused
from forager.core.proxies import ProxyEndpoint
from forager.fetch.http.connect import AddrInfo, GuardedResolver, clear
from forager.fetch.proxies.tunnel import Way, authorization, reach, refused_by, tunnel

# Builds the request for the next hop of a redirect. Credentials belong to one origin and must never reach another.


REDIRECTS = frozenset((301, 302, 303, 307, 308))

# Only these headers are sent on to another origin. A list of secret headers would miss those that an upstream invented.
HARMLESS = frozenset(("accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"))


@dataclass(frozen=True, slots=True)
class Hop:
    """One request on the wire. `headers` contain credentials only as long as the origin has not changed."""

    url: URL
    method: str
    headers: Mapping[str, str]
    body: bytes | None


def next_hop(hop: Hop, status: int, location: str) -> Hop:
    """Return the next hop of a redirect, or None. Its target has not been checked by the guard yet."""
    url = _target(hop.url, location)
    method, body, headers = hop.method, hop.body, dict(hop.headers)
    if status in (301, 302, 303) and method != "HEAD":
        method, body = "GET", None
    if body is None:
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if origin(url) != origin(hop.url):
        headers = {name: value for name, value in headers.items() if name.lower() in HARMLESS}
    return Hop(url, method, headers, body)


def origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.raw_host, url.port


def _target(base: URL, location: str) -> URL:
    """Resolve a location. One with a scheme is not joined: joining `http:x` to its base would hide that it has no
    host."""
    try:
        target = URL(location)
        return (target if target.scheme else base.join(target)).with_fragment(None)
    except (ValueError, UnicodeError):
        raise Refused("it redirects to something that is not a URL.") from None


MOST_IDLE = 32
IDLE = 60.0
HANDSHAKE = 10.0
FORWARDED = URL("http://proxy.invalid")
"""Makes aiohttp write the whole URL into a request. It is never resolved, because our connector has the proxy's
address."""

Open = Callable[[aiohttp.BaseConnector], aiohttp.ClientSession]


class ProxySessions:
    """Keeps HTTP sessions through proxies: one per proxy in use, and some idle ones for reuse.

    Use as `async with sessions.through(endpoint) as proxied:`. `open_session` creates a session on a connector.
    """

    def __init__(
        self, way: Way, open_session: Open, *, limit: int = 100, most_idle: int = MOST_IDLE, idle: float = IDLE
    ) -> None:
        self._way, self._open, self._limit = way, open_session, limit
        self._most_idle, self._idle = most_idle, idle
        self._busy: dict[ProxyEndpoint, Proxied] = {}
        self._resting: dict[ProxyEndpoint, Proxied] = {}
        """Least recently used first."""
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._busy) + len(self._resting)

    @asynccontextmanager
    async def through(self, proxy: ProxyEndpoint) -> AsyncIterator["Proxied"]:
        proxied = self._busy.get(proxy) or self._resting.pop(proxy, None) or self._opened(proxy)
        self._busy[proxy] = proxied
        proxied.users += 1
        if proxied.timer:
            proxied.timer.cancel()
        try:
            yield proxied
        finally:
            proxied.users -= 1
            if not proxied.users:
                self._rest(proxy, self._busy.pop(proxy))

    async def close(self) -> None:
        for proxied in (*self._busy.values(), *self._resting.values()):
            if proxied.timer:
                proxied.timer.cancel()
            await proxied.session.close()
        self._busy.clear()
        self._resting.clear()
        await asyncio.gather(*self._closing)

    def _opened(self, proxy: ProxyEndpoint) -> "Proxied":
        return Proxied(proxy, self._way, self._open(ProxyConnector(proxy, self._way, limit=self._limit)))

    def _rest(self, proxy: ProxyEndpoint, proxied: "Proxied") -> None:
        self._resting[proxy] = proxied
        proxied.timer = asyncio.get_running_loop().call_later(self._idle, self._drop, proxy)
        if len(self._resting) > self._most_idle:
            self._drop(next(iter(self._resting)))

    def _drop(self, proxy: ProxyEndpoint) -> None:
        if proxied := self._resting.pop(proxy, None):
            if proxied.timer:
                proxied.timer.cancel()
            task = asyncio.get_running_loop().create_task(proxied.session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class Proxied:
    """Sends requests through one proxy."""

    def __init__(self, proxy: ProxyEndpoint, way: Way, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None
        self._proxy, self._way = proxy, way

    def sender(self, patience: float) -> Callable[[Hop], Awaitable[aiohttp.ClientResponse]]:
        """Return the function that sends hops. The proxy has `patience` seconds to accept us: less than the whole
        request, so that a time-out there can be attributed to the proxy."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=patience)

        async def send(hop: Hop) -> aiohttp.ClientResponse:
            if hop.url.scheme == "https" or self._proxy.protocol == "socks5":
                return await self._send(hop, hop.headers, timeout, None)
            await self._way.guard.resolve(hop.url.raw_host or "", hop.url.port or 80)
            headers = dict(hop.headers)
            if credentials := authorization(self._proxy):
                headers["Proxy-Authorization"] = credentials
            answer = await self._send(hop, headers, timeout, FORWARDED)
            if answer.status == 407:
                answer.close()
                raise refused_by(self._proxy, 407)
            return answer

        return send

    async def _send(
        self, hop: Hop, headers: Any, timeout: aiohttp.ClientTimeout, proxy: URL | None
    ) -> aiohttp.ClientResponse:
        return await self.session.request(
            hop.method, hop.url, headers=headers, data=hop.body, allow_redirects=False, timeout=timeout, proxy=proxy
        )


class ProxyConnector(aiohttp.TCPConnector):
    """aiohttp's connector with its last step replaced: instead of dialling the addresses, it connects through a
    proxy."""

    def __init__(self, proxy: ProxyEndpoint, way: Way, *, limit: int) -> None:
        super().__init__(
            resolver=GuardedResolver(way.guard),
            use_dns_cache=False,
            limit=limit,
            ssl=way.tls or True,
            keepalive_timeout=15,
        )
        self._proxy, self._way = proxy, way

    async def _create_connection(
        self, req: ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if req.proxy is None:
            return await super()._create_connection(req, traces, timeout)
        _, protocol = await reach(self._proxy, self._way, self._factory, timeout.sock_connect or HANDSHAKE)
        return protocol

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[AddrInfo],
        req: ClientRequest,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect through the proxy. The addresses come from the guard, except if the URL contains one, so each is
        checked again."""
        try:
            for info in addr_infos:
                clear(self._way.guard, str(info[4][0]), int(info[4][1]))
        except OSError as error:
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        chosen = next((info for info in addr_infos if ":" not in info[4][0]), addr_infos[0])  # few proxies have IPv6
        patience = timeout.sock_connect or HANDSHAKE
        transport = await tunnel(self._proxy, str(chosen[4][0]), int(chosen[4][1]), self._way, patience)
        protocol = self._factory()
        if context := kwargs.get("ssl"):
            transport = await _secured(transport, protocol, context, kwargs.get("server_hostname"), req)
        else:
            transport.set_protocol(protocol)
        protocol.connection_made(transport)
        return transport, protocol


async def _secured(
    transport: asyncio.Transport,
    protocol: ResponseHandler,
    context: ssl.SSLContext,
    name: str | None,
    req: ClientRequest,
) -> asyncio.Transport:
    """Start TLS with the site inside the tunnel, by the site's name."""
    loop = asyncio.get_running_loop()
    try:
        secured = await loop.start_tls(
            transport, protocol, context, server_hostname=name, ssl_handshake_timeout=HANDSHAKE
        )
    except BaseException as error:
        transport.abort()
        if isinstance(error, ssl.SSLCertVerificationError):
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        if isinstance(error, OSError):
            raise aiohttp.ClientConnectorError(req.connection_key, error) from error
        if isinstance(
            error, TypeError
        ):  # how asyncio of Python 3.11 (not uvloop) fails in TLS inside TLS: the cause is lost
            raise aiohttp.ClientConnectorError(req.connection_key, ConnectionAbortedError("TLS failed")) from error
        raise
    if secured is None:
        raise aiohttp.ClientConnectorError(req.connection_key, ConnectionResetError("the proxy hung up"))
    return secured
