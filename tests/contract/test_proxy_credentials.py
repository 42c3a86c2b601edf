"""A proxy's credentials are for that proxy, a request's for their site: direct or proxied, no redirect mixes them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import product

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError
from forager.core.http import Request, SecretRef
from forager.core.proxies import ProxyProtocol
from forager.core.secret import Secret
from forager.fetch.browser.gate import Gate
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from tests.support.gate import Client, get, signature
from tests.support.origin import Origin, Seen, reply, trusting
from tests.support.proxy import LittleProxy

CANARY = "canary-8d1f"
HEADERS = {"Authorization": f"Bearer {CANARY}", "Cookie": f"s={CANARY}", "X-Invented": CANARY}
PROTOCOLS: list[ProxyProtocol] = ["http", "https", "socks5"]
CHANGES = ["none", "host", "port", "to TLS", "from TLS", "other TLS host"]


async def everything_is_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@dataclass
class World:
    plain: Origin
    other: Origin
    secure: Origin
    proxies: list[LittleProxy]
    fetch: HttpFetcher
    guard: EgressGuard

    @property
    def origins(self) -> tuple[Origin, ...]:
        return self.plain, self.other, self.secure

    def hops(self, change: str) -> tuple[str, str]:
        return {
            "none": (self.plain.url("/start", "a.test"), self.plain.url("/end", "a.test")),
            "host": (self.plain.url("/start", "a.test"), self.plain.url("/end", "b.test")),
            "port": (self.plain.url("/start", "a.test"), self.other.url("/end", "a.test")),
            "to TLS": (self.plain.url("/start", "a.test"), self.secure.url("/end", "a.test")),
            "from TLS": (self.secure.url("/start", "a.test"), self.plain.url("/end", "a.test")),
            "other TLS host": (self.secure.url("/start", "a.test"), self.secure.url("/end", "b.test")),
        }[change]

    def leaks(self) -> list[str]:
        """Return where a proxy's credentials turned up although they do not belong there."""
        found = []
        for n, owner in enumerate(self.proxies):
            marks = marks_of(owner)
            for origin in self.origins:
                found += [f"{n} at a site" for seen in origin.seen if any(mark in seen.raw for mark in marks)]
            for m, other in enumerate(self.proxies):
                said = bytes(other.passed) + (b"" if m == n else b"".join(other.heads))
                found += [f"{n} in what {m} saw"] * any(mark in said for mark in marks)
        return found


def marks_of(proxy: LittleProxy) -> tuple[bytes, ...]:
    pair = f"{proxy.user}:{proxy.password}".encode()
    return str(proxy.user).encode(), proxy.password.encode(), base64.b64encode(pair)


TARGET = {"to": ""}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    def answer(seen: Seen) -> bytes:
        return reply(307, Location=TARGET["to"]) if seen.target == "/start" else reply(body=b"end")

    async with (
        Origin(answer) as plain,
        Origin(answer) as other,
        Origin(answer, tls=True) as secure,
        LittleProxy("http", "user-0-77", "secret-0-77") as first,
        LittleProxy("https", "user-1-77", "secret-1-77") as second,
        LittleProxy("socks5", "user-2-77", "secret-2-77") as third,
    ):
        proxies = [first, second, third]
        guard = EgressGuard(["127.0.0.0/8"], resolver=everything_is_here)
        fetcher = HttpFetcher(
            guard,
            SystemClock(),
            {"KEY": CANARY}.get,
            tls=trusting(),
            endpoint_of=lambda n: proxies[n].endpoint(),
        )
        yield World(plain, other, secure, proxies, fetcher, guard)
        await fetcher.close()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", [None, 0, 1, 2])
async def test_no_credential_goes_where_it_does_not_belong__S7(world: World, way: int | None, change: str) -> None:
    start, TARGET["to"] = world.hops(change)
    request = Request(start, "POST", HEADERS, b"x", SecretRef("KEY", "X-Service-Key"), proxy=way)
    assert (await world.fetch(request)).body == b"end"
    assert world.leaks() == []
    (end,) = [seen for origin in world.origins for seen in origin.seen if seen.target == "/end"]
    assert (CANARY.encode() in end.raw) == (change == "none")  # the control: they do arrive where they belong
    for proxy in world.proxies:
        heads = b"".join(proxy.heads)
        clear_text = [head for head in proxy.heads if not head.startswith(b"CONNECT") and b"/end" in head]
        assert change == "none" or all(CANARY.encode() not in head for head in clear_text)
        if start.startswith("https"):
            assert CANARY.encode() not in heads + bytes(proxy.passed)  # inside TLS, or nowhere
    assert [bool(proxy.connections) for proxy in world.proxies] == [n == way for n in range(3)]


async def test_one_fetcher_never_mixes_its_proxies__S7(world: World) -> None:
    TARGET["to"] = world.secure.url("/end", "b.test")
    starts = [world.plain.url("/start", "a.test"), world.secure.url("/start", "a.test")]
    asked = [Request(url, proxy=way) for url, way, _ in product(starts, [0, 1, 2, None], range(5))]
    answers = await asyncio.gather(*(world.fetch(request) for request in asked))
    assert {answer.body for answer in answers} == {b"end"}
    assert world.leaks() == []
    assert all(proxy.connections for proxy in world.proxies)


@pytest.mark.parametrize("way", [0, 1, 2])
async def test_a_browser_never_sees_nor_spreads_a_proxys_credentials__S7(world: World, way: int) -> None:
    """Through the gate: neither a site nor the browser gets them, and neither gets the gate's own password."""
    gate = Gate(world.guard, tls=trusting())
    async with gate.open(world.proxies[way].endpoint()) as passage:
        plain, tunnel = await Client.to(passage), await Client.to(passage)
        plain.say(get(world.plain.url("/end", "a.test")))
        answer = await plain.reader.readuntil(b"end")
        tunnel.say(f"CONNECT a.test:{world.plain.port} HTTP/1.1\r\n\r\n")
        answer += await tunnel.reader.readuntil(b"\r\n\r\n")
        tunnel.say_unsigned("GET /end HTTP/1.1\r\nHost: a.test\r\n\r\n")
        answer += await tunnel.reader.readuntil(b"end")
        plain.writer.close()
        tunnel.writer.close()
    own = signature(passage).rpartition(" ")[2].encode()
    assert world.leaks() == []
    assert not any(mark in answer for mark in (own, *marks_of(world.proxies[way])))
    assert all(own not in head for head in world.proxies[way].heads)
    assert all(own not in seen.raw for seen in world.plain.seen)
    assert len(world.plain.seen) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "fault", ["wrong password", "hangs up", "refuses", "is not there", "is no proxy", "is private"]
)
async def test_no_error_shows_a_proxys_credentials__S8(protocol: ProxyProtocol, fault: str) -> None:
    refusal = {"hangs up": b"H", "refuses": b"HTTP/1.1 403 No user-77 secret-77\r\n\r\n", "is no proxy": b"-" * 99}
    async with LittleProxy(protocol, "user-77", "secret-77", refusal=refusal.get(fault, b"")) as proxy:
        password = "secret-78" if fault == "wrong password" else "secret-77"
        endpoint = proxy.endpoint(password=password)
        allow = [] if fault == "is private" else ["127.0.0.0/8"]
        if fault == "is not there":
            await proxy.__aexit__(None, None, None)
        fetcher = HttpFetcher(
            EgressGuard([*allow, "a.test:8443"], resolver=everything_is_here),
            SystemClock(),
            lambda _: None,
            tls=trusting(),
            endpoint_of=lambda _: endpoint,
        )
        with pytest.raises(ForagerError) as caught:
            await fetcher(Request("https://a.test:8443/", proxy=0, timeout=2))
        await fetcher.close()
    told = f"{caught.value!r} {caught.value} {endpoint!r}"
    assert not [mark for mark in ("user-7", "secret-7", "dXNlci03") if mark in told]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_secret_in_an_endpoint_is_never_printed__S8() -> None:
    endpoint = LittleProxy("http", "u-77", "p-77")
    endpoint.port = 1
    text = f"{endpoint.endpoint()!r}{endpoint.endpoint()}"
    assert "u-77" not in text
    assert "p-77" not in text
    assert Secret("p-77").reveal() == "p-77"
