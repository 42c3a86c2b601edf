"""Opens a connection through a proxy: connects to it, requests a tunnel to one checked address, and returns the
transport.

A proxy gets an address that the guard has cleared, never a name, which it could resolve to something else. Its user and
password are sent only to it, and never appear in an error. This module also decides whose failure it was: a failure of
the proxy is `ProxyFailed`; one that the proxy reports about the site is `Transient`, as if we had dialled the site
ourselves.
"""

import asyncio
import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import TypeVar, cast

from forager.core.errors import ForagerError, ProxyFailed, Transient, Unreachable
from forager.core.proxies import ProxyEndpoint
from forager.fetch.connect import Dialer, dial
from forager.fetch.guard import EgressGuard

MOST_HEAD = 16 * 1024
NO_ANSWER = 504  # the only refusal of CONNECT that is certainly about the site

# RFC 1928, section 6: reply codes of a SOCKS proxy that does not connect. These four are about the site.
SOCKS_ABOUT_THE_SITE = {
    3: "its network is unreachable",
    4: "its host is unreachable",
    5: "it refused the connection",
    6: "it is too far away",
}
SOCKS_REFUSALS = {1: "failed", 2: "does not allow this address", 7: "does not connect", 8: "cannot do this address"}

P = TypeVar("P", bound=asyncio.BaseProtocol)


@dataclass(frozen=True, slots=True)
class Way:
    """How proxies are dialled: the guard that checks their addresses, the dialer, and the TLS settings."""

    guard: EgressGuard
    dialer: Dialer
    tls: ssl.SSLContext | None = None


async def reach(
    proxy: ProxyEndpoint, way: Way, factory: Callable[[], P], patience: float
) -> tuple[asyncio.Transport, P]:
    """Connect to the proxy itself."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(patience):
            sock = await dial(await way.guard.resolve(proxy.host, proxy.port), proxy.port, way.dialer)
            secure = proxy.protocol == "https"
            transport, protocol = await loop.create_connection(
                factory,
                sock=sock,
                ssl=(way.tls or _trusted()) if secure else None,
                server_hostname=proxy.host if secure else None,
            )
    except TimeoutError:
        raise failed(proxy, "did not answer in time") from None
    except ForagerError as error:  # of the guard
        raise failed(proxy, f"cannot be dialled: {error.message}") from None
    except ssl.SSLCertVerificationError as error:
        raise failed(proxy, f"shows a certificate that is not trusted ({error.verify_message})") from None
    except (OSError, RuntimeError) as error:  # uvloop raises the latter when a socket dies under it
        raise failed(proxy, f"gave no connection ({_words(error)})") from None
    return transport, protocol


async def tunnel(proxy: ProxyEndpoint, address: str, port: int, way: Way, patience: float) -> asyncio.Transport:
    """Open a tunnel through the proxy to an address that the guard has cleared. Returns the transport; set your own
    protocol on it."""
    transport, talk = await reach(proxy, way, Talk, patience)
    ask = _socks if proxy.protocol == "socks5" else _connect
    try:
        async with asyncio.timeout(patience):
            await ask(proxy, address, port, talk)
        if talk.rest:
            raise failed(proxy, "sent data before it was asked for")
    except TimeoutError:
        transport.abort()
        # The proxy accepted us and then waited, as it does for a silent site. A proxy that hangs for every site is
        # found by the health check: blaming proxies for one dead site would disable them for all others.
        raise Transient(f"no connection in time through the proxy {named(proxy)}.") from None
    except BaseException:
        transport.abort()
        raise
    return transport


def authorization(proxy: ProxyEndpoint) -> str | None:
    """Return the value of Proxy-Authorization for this proxy."""
    if proxy.username is None:
        return None
    password = proxy.password.reveal() if proxy.password else ""
    pair = f"{proxy.username.reveal()}:{password}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def failed(proxy: ProxyEndpoint, what: str) -> ProxyFailed:
    return ProxyFailed(f"the proxy {named(proxy)} {what.rstrip('.')}.")


def refused_by(proxy: ProxyEndpoint, status: int) -> ProxyFailed:
    if status == 407:
        return failed(proxy, "wants another user name or password (407). Correct them")
    return failed(proxy, f"refused the connection (HTTP {status})")


def named(proxy: ProxyEndpoint) -> str:
    return f"[{proxy.host}]:{proxy.port}" if ":" in proxy.host else f"{proxy.host}:{proxy.port}"


class Talk(asyncio.Protocol):
    """The protocol of the handshake with a proxy, before the transport is handed over."""

    def __init__(self) -> None:
        self.rest = bytearray()
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._more: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.rest += data
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        self._wake()

    def say(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    async def exactly(self, count: int) -> bytes:
        while len(self.rest) < count:
            await self._wait()
        return self._take(count)

    async def head(self) -> bytes:
        """Read up to the empty line. A proxy that sends more than the limit is cut off."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            if len(self.rest) > MOST_HEAD:
                raise ConnectionError("its answer has no end")
            await self._wait()
        return self._take(end + 4)

    def _take(self, count: int) -> bytes:
        taken = bytes(self.rest[:count])
        del self.rest[:count]
        return taken

    async def _wait(self) -> None:
        if self._ended:
            raise ConnectionError("it hung up")
        self._more = asyncio.get_running_loop().create_future()
        await self._more

    def _wake(self) -> None:
        if self._more and not self._more.done():
            self._more.set_result(None)


async def _connect(proxy: ProxyEndpoint, address: str, port: int, talk: Talk) -> None:
    """HTTP: CONNECT."""
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if credentials := authorization(proxy):
        lines.append(f"Proxy-Authorization: {credentials}")
    talk.say("\r\n".join([*lines, "", ""]).encode())
    try:
        version, _, rest = (await talk.head()).partition(b" ")
    except ConnectionError as error:
        raise failed(proxy, f"broke off instead of connecting: {error}") from None
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise failed(proxy, "answers, but not as an HTTP proxy does. Check its protocol and port")
    status = int(rest[:3])
    if status == NO_ANSWER:
        raise Unreachable(f"no connection: the proxy {named(proxy)} says that the site does not answer.")
    if not 200 <= status < 300:
        raise refused_by(proxy, status)


async def _socks(proxy: ProxyEndpoint, address: str, port: int, talk: Talk) -> None:
    """SOCKS5 (RFC 1928) with or without a password (RFC 1929)."""
    try:
        await _socks_greeting(proxy, talk)
        packed = ip_address(address).packed
        kind = b"\x04" if len(packed) == 16 else b"\x01"
        talk.say(b"\x05\x01\x00" + kind + packed + port.to_bytes(2, "big"))
        version, reply, _, bound = await talk.exactly(4)
        if version != 5:
            raise failed(proxy, "answers, but not as a SOCKS5 proxy does. Check its protocol and port")
        if reply in SOCKS_ABOUT_THE_SITE:
            raise Unreachable(f"no connection: the proxy {named(proxy)} says that {SOCKS_ABOUT_THE_SITE[reply]}.")
        if reply:
            raise failed(proxy, SOCKS_REFUSALS.get(reply, f"refused the connection (SOCKS {reply})"))
        length = {1: 4, 4: 16}.get(bound) or (await talk.exactly(1))[0]
        await talk.exactly(length + 2)
    except ConnectionError as error:
        raise failed(proxy, f"broke off instead of connecting: {error}") from None


async def _socks_greeting(proxy: ProxyEndpoint, talk: Talk) -> None:
    talk.say(b"\x05\x01\x00" if proxy.username is None else b"\x05\x02\x00\x02")
    version, method = await talk.exactly(2)
    if version != 5:
        raise failed(proxy, "answers, but not as a SOCKS5 proxy does. Check its protocol and port")
    if method == 0:
        return
    if method != 2 or proxy.username is None:
        raise failed(proxy, "wants a user name and password, or a kind of sign-in that is not known here")
    user = proxy.username.reveal().encode()
    password = proxy.password.reveal().encode() if proxy.password else b""
    if not 0 < len(user) < 256 or len(password) > 255:
        raise failed(proxy, "has a user name or password longer than SOCKS5 can carry (255 bytes)")
    talk.say(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
    _, verdict = await talk.exactly(2)
    if verdict:
        raise failed(proxy, "wants another user name or password. Correct them")


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
