"""Checks a proxy by one real connection, guarded like any other, and measures its duration. Never shows a secret.

Without a check URL, only the proxy itself is tested: the connection, TLS if it uses it, and whether it accepts our user
and password. An HTTP proxy checks credentials only for a request, so the request is for a name that does not exist.
Requesting a site through every proxy every minute is traffic to a third party, which an operator has to enable
(FORAGER_PROXY_CHECK_URL); then the whole path is tested, and the answer may contain the country.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.clock import Clock
from forager.core.errors import ForagerError, ProxyFailed
from forager.core.http import Fetch, Request
from forager.core.proxies import ProxyEndpoint
from forager.fetch.guard import EgressGuard
from forager.fetch.proxies.tunnel import authorization

SECONDS = 10.0
NOWHERE = "forager-check.invalid:443"
"""RFC 6761: a name that never exists. Any answer but 407 is fine."""
MOST_BYTES = 64 * 1024
WANTED = "it requires a user name and password"
WRONG = "it does not accept the user and password"
COUNTRY_NAMES = ("country", "countryCode", "country_code", "country_iso", "loc_country")


@dataclass(frozen=True, slots=True)
class ProxyCheckResult:
    passed: bool
    latency_ms: int
    region: str | None = None
    reason: str | None = None
    """Why the check failed."""


class ProxyCheck:
    def __init__(
        self,
        guard: EgressGuard,
        clock: Clock,
        *,
        fetch: Fetch | None = None,
        url: str | None = None,
        seconds: float = SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`fetch` sends through a proxy by its number; it is used only with `url`."""
        self._guard = guard
        self._clock = clock
        self._fetch = fetch
        self._url = url
        self._seconds = seconds
        self._tls = tls

    async def __call__(self, proxy: int, endpoint: ProxyEndpoint) -> ProxyCheckResult:
        started = self._clock.monotonic()
        region, reason = None, None
        try:
            async with asyncio.timeout(self._seconds):
                if self._url and self._fetch:
                    region = await self._through(proxy, self._fetch, self._url)
                else:
                    await self._greet(endpoint)
        except TimeoutError:
            reason = f"no answer in {self._seconds:g} s"
        except ForagerError as error:
            reason = error.message
        except (OSError, EOFError) as error:
            # Never the library's text: it may contain what was sent.
            problem = getattr(error, "strerror", None) or getattr(error, "verify_message", None) or type(error).__name__
            reason = f"no connection ({problem})"
        took = round((self._clock.monotonic() - started) * 1000)
        return ProxyCheckResult(reason is None, took, region, reason)

    async def _through(self, proxy: int, fetch: Fetch, url: str) -> str | None:
        request = Request(url=url, site=True, proxy=proxy, timeout=self._seconds, max_bytes=MOST_BYTES, max_redirects=0)
        answer = await fetch(request)
        if answer.status >= 400:
            raise ProxyFailed(f"the check URL answered {answer.status} through it")
        return _country(answer.body)

    async def _greet(self, endpoint: ProxyEndpoint) -> None:
        """Test the proxy without contacting a third party."""
        addresses = await self._guard.resolve(endpoint.host, endpoint.port)
        secure = (self._tls or ssl.create_default_context()) if endpoint.protocol == "https" else None
        reader, writer = await asyncio.open_connection(
            addresses[0], endpoint.port, ssl=secure, server_hostname=endpoint.host if secure else None
        )
        try:
            greet = _greet_socks if endpoint.protocol == "socks5" else _greet_http
            await greet(reader, writer, endpoint)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _greet_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: ProxyEndpoint) -> None:
    """Test an HTTP proxy: bad credentials get a 407 before the proxy resolves the host (RFC 9110, 15.5.8)."""
    credentials = authorization(endpoint)
    lines = [f"CONNECT {NOWHERE} HTTP/1.1", f"Host: {NOWHERE}"]
    lines += [f"Proxy-Authorization: {credentials}"] if credentials else []
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        status_line = await reader.readexactly(len("HTTP/1.1 407"))
    except EOFError:
        raise ProxyFailed("it hung up instead of answering as an HTTP proxy does") from None
    if not status_line.startswith(b"HTTP/1."):
        raise ProxyFailed("it answers, but not as an HTTP proxy does: check its protocol and port")
    if status_line.endswith(b" 407"):
        raise ProxyFailed(f"{WRONG if endpoint.username else WANTED} (407)")


async def _greet_socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: ProxyEndpoint) -> None:
    """Test a SOCKS5 proxy (RFC 1928, 1929): method negotiation, then user and password."""
    writer.write(b"\x05\x02\x00\x02" if endpoint.username else b"\x05\x01\x00")
    version, method = await reader.readexactly(2)
    if version != 5:
        raise ProxyFailed("it does not speak SOCKS5")
    if method == 0:
        return
    if method != 2 or endpoint.username is None:
        raise ProxyFailed("it requires another way to sign in" if endpoint.username else WANTED)
    user = endpoint.username.reveal().encode()
    password = endpoint.password.reveal().encode() if endpoint.password else b""
    if not 0 < len(user) < 256 or len(password) > 255:
        raise ProxyFailed("its user name or password is longer than SOCKS5 can carry (255 bytes)")
    writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
    if (await reader.readexactly(2))[1] != 0:
        raise ProxyFailed(WRONG)


def _country(body: bytes) -> str | None:
    """Return the country from the JSON of the usual IP information services; None for any other answer."""
    try:
        told: Any = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(told, Mapping):
        return None
    countries = (told.get(name) for name in COUNTRY_NAMES)
    return next(
        (code.upper() for code in countries if isinstance(code, str) and re.fullmatch("[A-Za-z]{2}", code)), None
    )
