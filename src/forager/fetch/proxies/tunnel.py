"""Opens a connection through a proxy: connects to it, requests a tunnel to one checked address, and returns the
transport.

A proxy gets an address that the guard has cleared, never a name, which it could resolve to something else. Its user and
password are sent only to it, and never appear in an error. This module also decides whose failure it was: a failure of
the proxy is `ProxyFailed`; one that the proxy reports about the site is `Transient`, as if we had dialled the site
ourselves.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import TypeVar, cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from forager.core.errors import FieldError, ForagerError, ProxyFailed, Rejected, Transient, Unreachable
from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.core.secret import Secret
from forager.fetch.guard import EgressGuard
from forager.fetch.http.connect import Dialer, dial

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
    """Settings for connections to proxies: the guard that checks their addresses, the dialer, and TLS."""

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
            raise failed(proxy, "sent data before the request")
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
        return failed(proxy, "rejected the user name or password (407). Correct them")
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
        raise Unreachable(f"no connection: the proxy {named(proxy)} reports that the site does not answer.")
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
            raise Unreachable(f"no connection: the proxy {named(proxy)} reports that {SOCKS_ABOUT_THE_SITE[reply]}.")
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
        raise failed(proxy, "requires a user name and password, or an unsupported way to sign in")
    user = proxy.username.reveal().encode()
    password = proxy.password.reveal().encode() if proxy.password else b""
    if not 0 < len(user) < 256 or len(password) > 255:
        raise failed(proxy, "has a user name or password longer than SOCKS5 can carry (255 bytes)")
    talk.say(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
    _, verdict = await talk.exactly(2)
    if verdict:
        raise failed(proxy, "rejected the user name or password. Correct them")


@cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


# Parses a proxy's URL into a `ProxyEndpoint`. Pure; an error never repeats user or password.


__all__ = ["FORM", "ProxyEndpoint", "parse_endpoint", "parse_file", "parse_region"]

FORM = "http://user:password@host:port (or https, socks5; user and password may be left out)"
PROTOCOLS: tuple[ProxyProtocol, ...] = get_args(ProxyProtocol)
LONGEST = 2048
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")


def parse_endpoint(text: str, *, field: str = "address") -> ProxyEndpoint:
    """Parse a proxy's URL, which may end with `?region=de`. Raises `Rejected`, naming the part that is wrong."""
    text = text.strip()
    if len(text) > LONGEST or re.search(r"[\x00-\x20\x7f]", text) or text.count("://") != 1:
        raise _wrong(field, f"it should look like {FORM}")
    try:
        parts = urlsplit(text)
        port = parts.port
        host = (parts.hostname or "").lower()
    except ValueError:
        raise _wrong(field, "its host or port cannot be read; the port is a number from 1 to 65535") from None
    protocol = next((each for each in PROTOCOLS if each == parts.scheme.lower()), None)
    if protocol is None:
        raise _wrong(field, f"the protocol should be one of {', '.join(PROTOCOLS)}")
    if not port:
        raise _wrong(field, "the port is missing, or is not a number from 1 to 65535")
    if not _is_host(host):
        raise _wrong(field, "the host is not a name or an address")
    if parts.path not in ("", "/") or parts.fragment:
        raise _wrong(field, "nothing should follow the port but ?region=xx; % and / in a password are written %25, %2F")
    username, password = _secret(parts.username, field), _secret(parts.password, field)
    if password is not None and username is None:
        raise _wrong(field, "it has a password without a user")
    return ProxyEndpoint(protocol, host, port, username, password, _region(parts.query, field))


def parse_region(text: str, *, field: str = "region") -> str:
    """Return a two-letter country code in upper case; an empty text stays empty. Raises `Rejected` for anything
    else."""
    region = text.strip().upper()
    if not re.fullmatch(r"(?:[A-Z]{2})?", region):
        raise Rejected("The region is not valid.", fields=[FieldError(field, "two letters of a country, such as US")])
    return region


def parse_file(lines: Iterable[str], name: str) -> Sequence[ProxyEndpoint]:
    """Parse a file with one URL per line; empty lines and comments (#) are skipped. Reports all errors at once, by
    line."""
    endpoints: list[ProxyEndpoint] = []
    wrong: list[FieldError] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            try:
                endpoints.append(parse_endpoint(text, field=f"{name}:{number}"))
            except Rejected as error:
                wrong.extend(error.fields)
    if wrong:
        problems = "; ".join(f"line {each.field.rpartition(':')[2]}: {each.message}" for each in wrong[:5])
        raise Rejected(f"The proxy file {name} has {len(wrong)} wrong lines: {problems}.", fields=wrong)
    return endpoints


def _is_host(host: str) -> bool:
    if ":" not in host:
        return len(host) <= 253 and _HOST.fullmatch(host) is not None
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _secret(quoted: str | None, field: str) -> Secret | None:
    if not quoted:
        return None
    text = unquote(quoted)
    if len(text.encode("utf-8", "replace")) > 255 or re.search(r"[\x00-\x1f\x7f\ufffd]", text):
        raise _wrong(field, "user and password may have at most 255 bytes, and no control characters")
    return Secret(text)


def _region(query: str, field: str) -> str | None:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if set(given) - {"region"}:
        raise _wrong(field, "nothing but region=xx may follow the ?")
    return parse_region(given.get("region", ""), field=field) or None


def _wrong(field: str, what: str) -> Rejected:
    return Rejected(f"The proxy's address is not valid: {what}.", fields=[FieldError(field, what)])
