"""A check is one real connection: it reports what works, what does not, and why, and shows no password."""

import asyncio
import ssl
from collections.abc import Sequence

import orjson
import pytest

from forager.core.clock import SystemClock
from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.core.secret import Secret
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.proxies.check import NOWHERE, ProxyCheck, ProxyCheckResult
from tests.support.origin import PEM, Origin
from tests.support.proxy import LittleProxy

USER, PASSWORD = "canary-user", "canary-word"


def checker(*allow: str, seconds: float = 5.0) -> ProxyCheck:
    tls = ssl.create_default_context(cafile=str(PEM))
    tls.check_hostname = False
    return ProxyCheck(EgressGuard(allow), SystemClock(), seconds=seconds, tls=tls)


def silent(found: ProxyCheckResult) -> bool:
    return "canary" not in repr(found)


@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
async def test_a_proxy_that_answers_passes_with_its_latency__SC_9(protocol: ProxyProtocol) -> None:
    async with LittleProxy(protocol) as proxy:
        found = await checker(proxy.address)(1, proxy.endpoint())
    assert (found.passed, found.reason) == (True, None)
    assert found.latency_ms >= 0
    assert proxy.connections == 1


@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
async def test_the_check_finds_whether_a_proxy_accepts_the_password__SC_9(protocol: ProxyProtocol) -> None:
    async with LittleProxy(protocol, user=USER, password=PASSWORD) as proxy:
        check = checker(proxy.address)
        right = await check(1, proxy.endpoint(user=USER, password=PASSWORD))
        wrong = await check(1, proxy.endpoint(user=USER, password="canary-wrong"))
        none = await check(1, ProxyEndpoint(protocol, "127.0.0.1", proxy.port))
    status = "" if protocol == "socks5" else " (407)"
    assert (right.passed, right.reason) == (True, None)
    assert (wrong.passed, wrong.reason) == (False, f"it does not accept the user and password{status}")
    assert (none.passed, none.reason) == (False, f"it requires a user name and password{status}")
    assert silent(wrong)
    assert {*proxy.asked} <= {NOWHERE}  # no other service got a request


@pytest.mark.parametrize(
    ("said", "passed", "reason"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", False, "(407)"),
        (b"HTTP/1.0 407 No\r\n\r\n", False, "(407)"),
        (b"HTTP/1.1 200 Yes\r\n\r\n", True, ""),
        (b"HTTP/1.1 403 Not there\r\n\r\n", True, ""),
        (b"HTTP/1.1 504 Nobody\r\n\r\n", True, ""),
        (b"SSH-2.0-OpenSSH_9.7\r\n", False, "not as an HTTP proxy does"),
        (b"HTTP", False, "hung up"),
    ],
)
async def test_the_answer_of_an_http_proxy_for_an_unknown_name(said: bytes, passed: bool, reason: str) -> None:
    async with LittleProxy("http", refusal=said) as proxy:
        found = await checker(proxy.address)(1, proxy.endpoint(user=USER, password=PASSWORD))
    assert found.passed is passed
    assert reason in (found.reason or "")
    assert silent(found)


async def test_options_that_socks5_does_not_support_are_reported() -> None:
    async with LittleProxy("socks5", user=USER, password=PASSWORD) as proxy:
        found = await checker(proxy.address)(1, proxy.endpoint(user="u" * 256, password=PASSWORD))
    assert not found.passed
    assert "255 bytes" in (found.reason or "")


async def test_a_proxy_that_is_away_or_does_not_answer_fails_with_the_reason() -> None:
    async with LittleProxy() as proxy:
        gone = proxy.endpoint()
    found = await checker(proxy.address)(1, gone)
    assert not found.passed
    assert found.reason is not None
    assert found.reason.startswith("no connection")

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        waiting = ProxyEndpoint("socks5", "127.0.0.1", port, Secret(USER), Secret(PASSWORD))
        found = await checker(f"127.0.0.1:{port}", seconds=0.2)(1, waiting)
    assert (found.passed, found.reason) == (False, "no answer in 0.2 s")


@pytest.mark.parametrize("host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"])
async def test_a_proxy_at_a_private_address_is_refused_unless_it_is_listed__S1(host: str) -> None:
    async with LittleProxy() as proxy:
        found = await checker()(1, ProxyEndpoint("http", host, proxy.port, Secret(USER), Secret(PASSWORD)))
    assert not found.passed
    assert "FORAGER_EGRESS_ALLOW" in (found.reason or "")
    assert proxy.connections == 0


async def test_a_name_that_leads_inside_is_refused__S3() -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with LittleProxy() as proxy:
        check = ProxyCheck(EgressGuard((), resolver=inside), SystemClock())
        found = await check(1, ProxyEndpoint("http", "proxy.example", proxy.port))
    assert not found.passed
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("status", "body", "passed", "region"),
    [
        (200, {"ip": "1.2.3.4", "country": "de"}, True, "DE"),
        (200, {"countryCode": "US"}, True, "US"),
        (200, {"country": "Germany"}, True, None),
        (200, ["DE"], True, None),
        (503, {"country": "DE"}, False, None),
    ],
)
async def test_a_check_url_is_requested_through_the_proxy_and_may_return_the_country__SC_9(
    status: int, body: object, passed: bool, region: str | None
) -> None:
    said = orjson.dumps(body)
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(said)}\r\n\r\n".encode()
    async with LittleProxy(user=USER, password=PASSWORD) as proxy, Origin(lambda _: head + said) as origin:
        guard = EgressGuard((proxy.address, f"127.0.0.1:{origin.port}"))
        endpoint = proxy.endpoint(user=USER, password=PASSWORD)
        fetcher = HttpFetcher(guard, SystemClock(), lambda _: None, endpoint_of=lambda _: endpoint)
        check = ProxyCheck(guard, SystemClock(), fetch=fetcher, url=f"http://127.0.0.1:{origin.port}/where")
        found = await check(7, endpoint)
        await fetcher.close()
    assert (found.passed, found.region) == (passed, region)
    assert silent(found)
    assert proxy.asked
    assert not any(b"canary" in seen.raw for seen in origin.seen)


async def test_a_check_through_a_proxy_that_refuses_our_password_fails_and_does_not_show_it() -> None:
    async with LittleProxy(user=USER, password=PASSWORD) as proxy, Origin(lambda _: b"") as origin:
        guard = EgressGuard((proxy.address, f"127.0.0.1:{origin.port}"))
        endpoint = proxy.endpoint(user=USER, password="canary-wrong")
        fetcher = HttpFetcher(guard, SystemClock(), lambda _: None, endpoint_of=lambda _: endpoint)
        check = ProxyCheck(guard, SystemClock(), fetch=fetcher, url=f"http://127.0.0.1:{origin.port}/")
        found = await check(7, endpoint)
        await fetcher.close()
    assert not found.passed
    assert "(407)" in (found.reason or "")
    assert silent(found)
    assert origin.seen == []
