"""Through a proxy the same rules hold: the guard decides here, and it is known whose failure it was."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest
import uvloop

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError, Permanent, ProxyFailed, Refused, TimedOut, Transient, Unreachable
from forager.core.http import Request
from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.fetch.guard import EgressGuard, Resolver
from forager.fetch.http.connect import AddrInfo, Dialer, NotCleared, open_socket
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.http.sessions import ProxyConnector
from forager.fetch.proxies.tunnel import Way
from tests.support.origin import Origin, Seen, reply, trusting
from tests.support.proxy import LittleProxy
from tests.support.ssrf import forbidden_urls, public_urls

PROTOCOLS: list[ProxyProtocol] = ["http", "https", "socks5"]
PUBLIC = "93.184.215.14"


async def everything_is_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def fetching(
    *proxies: ProxyEndpoint,
    allow: Sequence[str] = ("127.0.0.0/8",),
    resolver: Resolver = everything_is_here,
    tls: ssl.SSLContext | None = None,
    dialer: Dialer = open_socket,
) -> AsyncIterator[HttpFetcher]:
    """A fetcher with these proxies, numbered by position."""
    fetcher = HttpFetcher(
        EgressGuard(allow, resolver=resolver),
        SystemClock(),
        lambda _: None,
        tls=tls or trusting(),
        endpoint_of=proxies.__getitem__,
        dialer=dialer,
    )
    try:
        yield fetcher
    finally:
        await fetcher.close()


def names(*origins: Origin | LittleProxy, hosts: Sequence[str] = ("a.test", "b.test", "127.0.0.1")) -> list[str]:
    return [f"{host}:{origin.port}" for origin in origins for host in hosts]


@pytest.mark.parametrize("user", [None, "someone"])
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_page_comes_through_any_proxy(protocol: ProxyProtocol, tls: bool, user: str | None) -> None:
    async with (
        Origin(lambda seen: reply(body=b"you said " + seen.body), tls=tls) as origin,
        LittleProxy(protocol, user, "pass:wörd") as proxy,
        fetching(proxy.endpoint(), allow=names(origin, proxy)) as fetch,
    ):
        left: list[int] = []
        response = await fetch(
            Request(
                origin.url("/p?q=1", "a.test"),
                "POST",
                body=b"hello",
                proxy=0,
                on_leave=lambda: left.append(len(origin.seen)),
            )
        )
        assert (response.status, response.body) == (200, b"you said hello")
        assert origin.seen[0].headers["host"] == f"a.test:{origin.port}"
        assert left == [0]  # once, before the site had it: the way through the proxy does not count
        forwarded = protocol != "socks5" and not tls
        assert proxy.asked == [origin.url("/p?q=1", "a.test") if forwarded else f"127.0.0.1:{origin.port}"]
        assert origin.connections == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tunnel_is_kept_for_the_next_request(protocol: ProxyProtocol) -> None:
    async with (
        Origin(lambda _: reply(), tls=True) as origin,
        LittleProxy(protocol) as proxy,
        fetching(proxy.endpoint()) as fetch,
    ):
        for _ in range(3):
            await fetch(Request(origin.url("/", "a.test"), proxy=0))
        assert (proxy.connections, origin.connections, len(origin.seen)) == (1, 1, 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_certificate_must_be_the_sites_own(protocol: ProxyProtocol) -> None:
    """The proxy gets an address; TLS uses the name. On uvloop, as in production: see `sessions._secured`."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(a_wrong_certificate(protocol))
        runner.run(a_page_of_a_site_with_tls(protocol))


async def a_page_of_a_site_with_tls(protocol: ProxyProtocol) -> None:
    async with (
        Origin(lambda _: reply(body=b"hi"), tls=True) as origin,
        LittleProxy(protocol, "u", "p") as proxy,
        fetching(proxy.endpoint()) as fetch,
    ):
        assert (await fetch(Request(origin.url("/", "b.test"), proxy=0))).body == b"hi"


async def a_wrong_certificate(protocol: ProxyProtocol) -> None:
    async with (
        Origin(lambda _: reply(), tls=True) as origin,
        LittleProxy(protocol) as proxy,
        fetching(proxy.endpoint()) as fetch,
    ):
        with pytest.raises(Permanent, match="certificate"):
            await fetch(Request(origin.url("/", "c.test"), proxy=0))
        assert origin.seen == []


async def test_an_https_proxy_without_a_trusted_certificate_is_not_used() -> None:
    async with (
        Origin(lambda _: reply()) as origin,
        LittleProxy("https", "u", "p") as proxy,
        fetching(proxy.endpoint(), tls=ssl.create_default_context()) as fetch,
    ):
        with pytest.raises(ProxyFailed, match="certificate"):
            await fetch(Request(origin.url(), proxy=0))
        assert proxy.heads == []


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_wrong_password_is_the_proxys_failure(protocol: ProxyProtocol, tls: bool) -> None:
    async with (
        Origin(lambda _: reply(), tls=tls) as origin,
        LittleProxy(protocol, "someone", "right") as proxy,
        fetching(proxy.endpoint(password="wrong-4711"), proxy.endpoint(user="", password="")) as fetch,
    ):
        with pytest.raises(ProxyFailed, match="user name or password") as caught:
            await fetch(Request(origin.url("/", "a.test"), proxy=0))
        assert "4711" not in str(caught.value)
        assert "someone" not in str(caught.value)
        with pytest.raises(ProxyFailed):
            await fetch(Request(origin.url("/", "a.test"), proxy=1))
        assert origin.connections == 0


REFUSALS = [
    ("http", b"HTTP/1.1 502 No\r\n\r\n", ProxyFailed),
    ("http", b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", ProxyFailed),
    ("http", b"HTTP/1.1 504 No\r\n\r\n", Unreachable),
    ("http", b"SSH-2.0-OpenSSH\r\n\r\n", ProxyFailed),
    ("http", b"HTTP/1.1 20", ProxyFailed),
    ("http", b"HTTP/1.1 200 Yes\r\nX: " + b"x" * 20_000, ProxyFailed),
    ("http", b"HTTP/1.1 200 Yes\r\n\r\nmore than was asked for", ProxyFailed),
    ("socks5", b"\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00", ProxyFailed),
    ("socks5", b"\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00", ProxyFailed),
    ("socks5", b"\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00", Unreachable),
    ("socks5", b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", Unreachable),
    ("socks5", b"\x05\x63\x00\x01\x00\x00\x00\x00\x00\x00", ProxyFailed),
    ("socks5", b"\x05\x00\x00", ProxyFailed),
    ("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", ProxyFailed),
]


@pytest.mark.parametrize(("protocol", "said", "error"), REFUSALS)
async def test_a_refusal_is_distinguished_from_a_dead_site(
    protocol: ProxyProtocol, said: bytes, error: type[ForagerError]
) -> None:
    async with LittleProxy(protocol, refusal=said) as proxy, fetching(proxy.endpoint()) as fetch:
        with pytest.raises(Transient) as caught:
            await fetch(Request("https://a.test:4430/", proxy=0))
        assert type(caught.value) is error


async def test_a_status_of_the_site_behind_a_tunnel_is_the_sites() -> None:
    async with (
        Origin(lambda seen: reply(int(seen.target[1:])), tls=True) as origin,
        LittleProxy() as proxy,
        fetching(proxy.endpoint()) as fetch,
    ):
        for status in (407, 502, 504):
            assert (await fetch(Request(origin.url(f"/{status}", "a.test"), proxy=0))).status == status


async def test_a_site_that_breaks_off_is_the_sites_failure() -> None:
    async with Origin(lambda _: b"", tls=True) as origin, LittleProxy() as proxy, fetching(proxy.endpoint()) as fetch:
        with pytest.raises(Transient) as caught:
            await fetch(Request(origin.url("/", "a.test"), proxy=0))
        assert type(caught.value) is Transient


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_proxy_that_is_not_there_fails(protocol: ProxyProtocol) -> None:
    async with LittleProxy(protocol) as proxy:
        endpoint = proxy.endpoint()
    async with fetching(endpoint) as fetch:
        for url in ("http://a.test:8081/", "https://a.test:8443/"):
            with pytest.raises(ProxyFailed, match="no connection"):
                await fetch(Request(url, proxy=0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_proxy_that_never_answers_is_given_up_in_time(protocol: ProxyProtocol) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    endpoint = ProxyEndpoint(protocol, "127.0.0.1", server.sockets[0].getsockname()[1])
    async with fetching(endpoint) as fetch:
        with pytest.raises(Transient) as caught:
            await fetch(Request("https://a.test:8443/", proxy=0, timeout=0.3))
        # TLS without an answer is the proxy's; one that let us in may be waiting for the site.
        assert type(caught.value) in ((ProxyFailed,) if protocol == "https" else (Transient, TimedOut))
    server.close()


async def test_a_removed_proxy_and_none_at_all_are_failed_ones() -> None:
    fetcher = HttpFetcher(EgressGuard(), SystemClock(), lambda _: None)
    with pytest.raises(ProxyFailed):
        await fetcher(Request("http://a.test/", proxy=7))
    await fetcher.close()


async def test_sessions_are_kept_for_a_while_and_few_at_a_time() -> None:
    async with Origin(lambda _: reply()) as origin, LittleProxy("socks5", "u", "p") as proxy:
        endpoints = [proxy.endpoint(user=f"u{n}") for n in range(40)]
        async with fetching(*endpoints) as fetch:
            for n in range(40):
                with pytest.raises(ProxyFailed):
                    await fetch(Request(origin.url(), proxy=n))
            assert len(fetch._proxied) == 32


# ── S1, S3: the guard is here, not at the proxy ──


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_forbidden_url_is_sent_to_a_proxy__S1(protocol: ProxyProtocol) -> None:
    async with (
        Origin(lambda _: reply(body=b"internal")) as canary,
        LittleProxy(protocol) as proxy,
        fetching(proxy.endpoint(), allow=[proxy.address]) as fetch,
    ):
        urls = forbidden_urls(canary.port)
        assert len(urls) >= 400
        urls += [f"http://rebind.test:{canary.port}/", f"https://rebind.test:{canary.port}/"]
        assert [url for url in urls if await outcome(fetch, url) != "Refused"] == []
        assert (proxy.asked, canary.connections) == ([], 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_no_forbidden_redirect_is_sent_to_a_proxy__S1(protocol: ProxyProtocol) -> None:
    async with Origin(lambda _: reply(body=b"internal")) as canary, LittleProxy(protocol) as proxy:
        urls = forbidden_urls(canary.port)

        def redirect(seen: Seen) -> bytes:
            return reply(302, Location=urls[int(seen.target[1:])])

        async with Origin(redirect) as entrance, fetching(proxy.endpoint(), allow=names(entrance, proxy)) as fetch:
            refused = [await outcome(fetch, entrance.url(f"/{n}", "a.test")) for n in range(0, len(urls), 5)]
            assert set(refused) == {"Refused"}
            assert len(entrance.seen) == len(refused)
            assert all(str(canary.port) not in asked for asked in proxy.asked)
        assert canary.connections == 0


async def test_an_address_is_checked_again_before_it_is_sent_to_a_proxy__S1() -> None:
    """The client library does not resolve an address: the last check must be in the connector."""
    async with LittleProxy("socks5") as proxy:
        way = Way(EgressGuard([proxy.address]), open_socket)
        async with aiohttp.ClientSession(connector=ProxyConnector(proxy.endpoint(), way, limit=1)) as session:
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await session.get("http://10.0.0.1/")
        assert isinstance(caught.value.os_error, NotCleared)
        assert proxy.asked == []


async def test_no_forbidden_address_is_dialled_as_a_proxy__S1() -> None:
    attempted: list[object] = []

    def dialer(info: AddrInfo) -> socket.socket:
        attempted.append(info)
        raise ConnectionRefusedError

    async with Origin(lambda _: reply(body=b"internal")) as canary:
        hosts = [url.partition("//")[2].rpartition(f":{canary.port}")[0] for url in forbidden_urls(canary.port)]
        proxies = [ProxyEndpoint("http", host.strip("[]"), canary.port) for host in hosts if host]
        proxies += [ProxyEndpoint(kind, "rebind.test", canary.port) for kind in PROTOCOLS]
        assert len(proxies) >= 400

        async def resolver(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.1"] if host != "shop.test" else [PUBLIC]

        async with fetching(*proxies, allow=(), resolver=resolver, dialer=dialer) as fetch:
            for url in ("https://shop.test/", "http://shop.test/"):
                got = [await outcome(fetch, url, proxy=n) for n in range(len(proxies))]
                assert set(got) == {"ProxyFailed"}
        assert (attempted, canary.connections) == ([], 0)


async def test_public_controls_pass_through_a_proxy__S1() -> None:
    """The guard allowed them: the proxy was used for each, by a public address or its URL."""

    async def resolver(host: str, port: int) -> Sequence[str]:
        return [PUBLIC]

    urls = public_urls()
    for protocol in PROTOCOLS:
        said = (
            b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00"
            if protocol == "socks5"
            else b"HTTP/1.1 504 No\r\nContent-Length: 0\r\n\r\n"
        )
        async with (
            LittleProxy(protocol, refusal=said) as proxy,
            fetching(proxy.endpoint(), allow=[proxy.address], resolver=resolver) as fetch,
        ):
            assert {await outcome(fetch, url) for url in urls} <= {"Unreachable", "504"}
            assert len(proxy.asked) >= len(urls) >= 50


async def test_a_name_is_resolved_once_and_the_proxy_gets_that_address__S3() -> None:
    answers = [[PUBLIC], ["127.0.0.1"], [PUBLIC, "10.0.0.1"]]

    async def resolver(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async with (
        LittleProxy("socks5", refusal=b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00") as proxy,
        fetching(proxy.endpoint(), allow=[proxy.address], resolver=resolver) as fetch,
    ):
        assert await outcome(fetch, "https://rebind.test/") == "Unreachable"
        assert await outcome(fetch, "https://rebind.test/") == "Refused"
        assert await outcome(fetch, "https://mixed.test/") == "Refused"
        assert proxy.asked == [f"{PUBLIC}:443"]


async def test_a_resolver_that_fails_leads_to_no_proxy__S3() -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    for protocol in PROTOCOLS:
        async with (
            LittleProxy(protocol) as proxy,
            fetching(proxy.endpoint(), allow=[proxy.address], resolver=resolver) as fetch,
        ):
            assert {await outcome(fetch, f"{scheme}://gone.test/") for scheme in ("http", "https")} == {"Unreachable"}
            assert proxy.asked == []


async def outcome(fetch: HttpFetcher, url: str, proxy: int = 0) -> str:
    try:
        return str((await fetch(Request(url, timeout=5, proxy=proxy))).status)
    except Refused:
        return "Refused"
    except ForagerError as error:
        return type(error).__name__
