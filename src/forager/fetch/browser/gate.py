"""The gate: a proxy on loopback through which all traffic of a browser goes, so that the egress guard sees it.

A page decides what its browser requests, so checking the URL of a visit is not enough: scripts, frames, images and
redirects could reach addresses of the internal network. The gate is the one place where all of it can be checked. It
resolves each name once, lets the guard check every address, and dials exactly the address that was checked. If the
browser resolved names itself, a second lookup could return another, private address (DNS rebinding). A refusal is an
HTTP answer with the reason.

Each visit has its own passage: a port that exists only during the visit, and is cut off with all its connections at the
end. Other users of the machine can find the port, so every request must carry the passage's password, which only the
browser gets. The browser must be configured to use the port for everything, including loopback (`<-loopback>` in its
bypass list); a bypass would skip the guard.
"""

import asyncio
import base64
import hmac
import secrets
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from yarl import URL

from forager.core.errors import ForagerError, ProxyFailed, Refused, Transient, Unreachable
from forager.core.hosts import one_spelling
from forager.core.proxies import ProxyEndpoint
from forager.core.secret import Secret
from forager.fetch.browser.relay import Head, Inlet, Malformed, Outlet
from forager.fetch.guard import EgressGuard
from forager.fetch.http.connect import Dialer, dial, open_socket
from forager.fetch.proxies.tunnel import Way, authorization, reach, refused_by, tunnel

MOST_CONNECTIONS = 256
MOST_NAMES = 1024
MOST_LOGGED = 10
CONNECT_TIMEOUT = 10.0
USERNAME = "visit"
IDLE = 120.0
"""Seconds after which an idle connection, or an incomplete request, is cut off."""

log = structlog.get_logger("forager.fetch")


@dataclass(frozen=True, slots=True)
class GateTarget:
    """The target of one request: a tunnel to host and port (CONNECT), or else a plain request for `path` there."""

    host: str
    port: int
    tunnel: bool
    path: str = ""
    authority: str = ""

    @property
    def origin(self) -> tuple[str, int, bool]:
        return self.host, self.port, self.tunnel

    @property
    def name(self) -> str:
        """Host and port, for messages; the port is left out where it is the usual one."""
        return one_spelling(f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")


class Gate:
    """Opens passages. `tls` verifies the certificate of an https proxy, instead of the system's settings."""

    def __init__(
        self,
        guard: EgressGuard,
        *,
        dialer: Dialer = open_socket,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
        idle: float = IDLE,
    ) -> None:
        self._way = Way(guard, dialer, tls)
        self._most, self._idle = most, idle

    @asynccontextmanager
    async def open(self, proxy: ProxyEndpoint | None = None) -> AsyncIterator["Passage"]:
        """Yield a passage for one visit, through a proxy if one is given. Pass `passage.url` to the browser's context,
        and answer its authentication requests with user name and password."""
        passage = Passage(self._way, proxy, self._most, self._idle)
        server = await asyncio.get_running_loop().create_server(
            lambda: Inlet(passage), "127.0.0.1", 0, backlog=self._most
        )
        passage.port = server.sockets[0].getsockname()[1]
        try:
            yield passage
        finally:
            server.close()
            passage.close()


class Passage:
    """The traffic of one visit: checks and connects it, and records why something failed."""

    def __init__(self, way: Way, proxy: ProxyEndpoint | None, most: int, idle: float) -> None:
        self.port = 0
        self.sent = 0
        self.received = 0
        self.refusals = 0
        """Number of requests that the guard refused."""
        self.proxy_failed: ProxyFailed | None = None
        """The last failure of the proxy itself."""
        self.password = Secret(secrets.token_urlsafe(32))
        self._signed = base64.b64encode(f"{USERNAME}:{self.password.reveal()}".encode())
        self._way, self._proxy, self._most = way, proxy, most
        self._inlets: dict[Inlet, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lookups: dict[tuple[str, int], asyncio.Future[list[str]]] = {}
        self._failures: dict[tuple[str, int], ForagerError] = {}
        self._closed = False
        self._idle = idle
        self._timer = asyncio.get_running_loop().call_later(idle, self._sweep)

    @property
    def url(self) -> str:
        """The proxy URL for the browser."""
        return f"http://127.0.0.1:{self.port}"

    def error_of(self, url: str) -> ForagerError | None:
        """Return why the last attempt to reach this URL's host failed, if it did. The browser only reports that it
        failed."""
        return self._failures.get(_where(url))

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for lookup in self._lookups.values():
            lookup.cancel()
        for inlet in list(self._inlets):
            inlet.abort()

    # ── for the two ends ──

    def admit(self, inlet: Inlet) -> bool:
        if self._closed or len(self._inlets) >= self._most:
            return False
        self._inlets[inlet] = -1
        return True

    def forget(self, inlet: Inlet) -> None:
        self._inlets.pop(inlet, None)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def knows(self, head: Head) -> bool:
        """Return whether a request comes from the browser of this visit: each must carry the password."""
        scheme, _, credentials = b"".join(head.values(b"proxy-authorization")).partition(b" ")
        return scheme.lower() == b"basic" and hmac.compare_digest(credentials.strip(), self._signed)

    def target(self, head: Head) -> GateTarget:
        """Return the target of a request head. Raises if its spelling alone is refused."""
        tunnel = head.method == b"CONNECT"
        text = f"https://{head.target}" if tunnel else head.target
        _, _, rest = text.partition("://")
        cut = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
        path = rest[cut:]
        if (tunnel and (path or not rest.rpartition(":")[2].isdigit())) or "#" in path:
            raise Malformed("its target is neither host:port nor a whole URL")
        try:
            url = self._way.guard.check_url(text)
        except Refused as error:
            self._refused(*_where(text), error)
            raise
        if not tunnel and url.scheme != "http":
            raise Malformed("https uses CONNECT")
        # Use the authority as the guard parsed it, not as it was spelled: a proxy behind us would parse it again,
        # perhaps differently.
        authority = url.host_port_subcomponent or ""
        return GateTarget(
            url.raw_host or "", url.port or 0, tunnel, path if path.startswith("/") else f"/{path}", authority
        )

    async def connect(self, target: GateTarget, outlet: Outlet) -> None:
        """Connect an outlet to an address that the guard has cleared for this target, directly or through the proxy."""
        try:
            addresses = await self._cleared(target.host, target.port)
            if self._proxy:
                await self._through(self._proxy, target, addresses, outlet)
            else:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    sock = await dial(addresses, target.port, self._way.dialer)
                    await asyncio.get_running_loop().create_connection(lambda: outlet, sock=sock)
            self._failures.pop((target.host, target.port), None)
        except TimeoutError:
            raise Unreachable(f"{target.name} gave no connection in time.") from None
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unreachable(f"{target.name} gave no connection ({reason}).") from None

    async def _through(self, proxy: ProxyEndpoint, target: GateTarget, addresses: list[str], outlet: Outlet) -> None:
        if self._forwards(target):
            await reach(proxy, self._way, lambda: outlet, CONNECT_TIMEOUT)
            return
        address = next((text for text in addresses if ":" not in text), addresses[0])
        transport = await tunnel(proxy, address, target.port, self._way, CONNECT_TIMEOUT)
        transport.set_protocol(outlet)
        outlet.connection_made(transport)

    def _forwards(self, target: GateTarget) -> bool:
        """Return whether the proxy gets the URL and not an address. It then resolves the name itself, which cannot be
        avoided."""
        return self._proxy is not None and self._proxy.protocol != "socks5" and not target.tunnel

    def rewritten(self, head: Head, target: GateTarget) -> bytes:
        if self._proxy is None or not self._forwards(target):
            return head.rewritten(target.path, target.authority)
        value = authorization(self._proxy)
        extra = ((b"Proxy-Authorization", value.encode()),) if value else ()
        return head.rewritten(f"http://{target.authority}{target.path}", target.authority, extra)

    def note(self, target: GateTarget, error: ForagerError) -> int:
        """Record why a connection failed. Returns the status to answer with."""
        if isinstance(error, Refused):
            self._refused(target.host, target.port, error)
            return 403
        if isinstance(error, ProxyFailed):
            self.proxy_failed = error
        self._failed(target.host, target.port, error)
        return 502

    def unwelcome(self, target: GateTarget | None) -> str:
        """Handle a 407 in a plain answer: from the proxy, or from a site that pretends to be one."""
        if self._proxy and target and self._forwards(target):
            error: ForagerError = refused_by(self._proxy, 407)
        else:
            error = Transient("the site requested a password as only a proxy may (407).")
        if target:
            self.note(target, error)
        return error.message

    # ── inside ──

    def _refused(self, host: str, port: int, error: Refused) -> None:
        self.refusals += 1
        self._failed(host, port, error)
        if self.refusals <= MOST_LOGGED:
            log.info("browser_egress_refused", host=host, port=port, reason=error.message)

    def _failed(self, host: str, port: int, error: ForagerError) -> None:
        self._failures.pop((host, port), None)  # so that the oldest stays first
        self._failures[host, port] = error
        if len(self._failures) > MOST_NAMES:
            del self._failures[next(iter(self._failures))]

    async def _cleared(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, resolved once per visit: a second lookup could return others."""
        lookup = self._lookups.get((host, port))
        if lookup is None:
            lookup = asyncio.ensure_future(self._way.guard.resolve(host, port))
            lookup.add_done_callback(
                lambda done: done.cancelled() or done.exception()
            )  # mark the exception as retrieved
            if len(self._lookups) >= MOST_NAMES:
                del self._lookups[next(iter(self._lookups))]
            self._lookups[host, port] = lookup
        try:
            return await asyncio.shield(lookup)
        except ForagerError:
            if self._lookups.get((host, port)) is lookup:
                del self._lookups[host, port]
            raise

    def _sweep(self) -> None:
        """Close connections that were idle since the last sweep, and those with an incomplete head."""
        self._timer = asyncio.get_running_loop().call_later(self._idle, self._sweep)
        for inlet, before in list(self._inlets.items()):
            moved = inlet.moved + (inlet.outlet.moved if inlet.outlet else 0)
            if moved == before or (before >= 0 and not inlet.asked):
                inlet.abort()
            else:
                self._inlets[inlet] = moved


def _where(url: str) -> tuple[str, int]:
    """Return host and port of a URL; for one that cannot be parsed, its shortened text without the query."""
    try:
        parsed = URL(url)
        if parsed.raw_host and parsed.port:
            return parsed.raw_host, parsed.port
    except ValueError:
        pass
    return url.partition("?")[0][:200], 0
