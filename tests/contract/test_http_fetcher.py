"""Guarantees for a step: any status is a response, codings are undone, failures are ours, nothing is sent twice."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import brotli
import pytest
import zstandard

from forager.core.clock import SystemClock
from forager.core.errors import Permanent, RateLimited, Refused, TimedOut, Transient
from forager.core.http import Request, Response, SecretRef
from forager.core.secret import Secret
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from tests.support.clock import FakeClock
from tests.support.origin import Answer, Origin, Seen, reply
from tests.support.proxy import LittleProxy

TEXT = "Grüße aus Köln. ".encode() * 5000


async def ask(answer: Callable[[Seen], Answer], path: str = "/", **options: Any) -> tuple[Response, Origin]:
    """Send one request to an origin with this answer."""
    async with Origin(answer) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), {"KEY": "k"}.get, user_agent="tests/1")
        try:
            return await fetcher(Request(origin.url(path), **{"timeout": 5.0, **options})), origin
        finally:
            await fetcher.close()


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 429, 500, 503])
async def test_an_answer_of_any_status_is_a_response(status: int) -> None:
    response, _ = await ask(lambda _: reply(status, Retry_After="7"))
    assert (response.status, response.headers["retry-after"]) == (status, "7")


async def test_a_response_is_whole() -> None:
    before = datetime.now(UTC)
    response, origin = await ask(lambda _: reply(body=b'{"a": 1}', content_TYPE="application/json"), "/p?q=a%20b#frag")
    assert response.json() == {"a": 1}
    assert response.headers.get("Content-Type") == "application/json"
    assert response.url == origin.url("/p?q=a%20b")
    assert abs((response.at - before).total_seconds()) < 60
    assert 0 <= response.elapsed_ms < 60_000


async def test_the_request_is_sent_as_given() -> None:
    request = {"method": "post", "body": b"{}", "headers": {"X-One": "1", "Content-Type": "application/json"}}
    _, origin = await ask(lambda _: reply(), "/p", auth=SecretRef("KEY", "X-API-KEY"), **request)
    (seen,) = origin.seen
    assert (seen.method, seen.target, seen.body) == ("POST", "/p", b"{}")
    assert seen.headers == {
        "host": origin.endpoint,
        "user-agent": "tests/1",
        "accept": "*/*",
        "accept-encoding": "gzip, deflate, br, zstd",
        "x-one": "1",
        "content-type": "application/json",
        "x-api-key": "k",
        "content-length": "2",
    }


async def test_a_secret_that_an_answer_repeats_is_removed_from_it__S8() -> None:
    secret = Secret("canary-4471")
    request = {"auth": SecretRef("token", prefix="Bearer ", of_job=True), "job_secret": secret}

    def echo(seen: Seen) -> bytes:
        return reply(403, b"no: " + seen.headers["authorization"].encode(), X_Was=seen.headers["authorization"])

    response, origin = await ask(echo, "/p", **request)
    assert origin.seen[0].headers["authorization"] == "Bearer canary-4471"
    assert (response.body, response.headers["x-was"]) == (b"no: Bearer ***", "Bearer ***")
    response, _ = await ask(lambda _: reply(body=b"all is ok"), "/p", auth=SecretRef("KEY", "X-API-KEY"))
    assert response.body == b"all is ok", "a short one would be found in ordinary words"


async def test_cookies_are_not_kept() -> None:
    async with Origin(lambda _: reply(Set_Cookie="a=b")) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None)
        await fetcher(Request(origin.url()))
        await fetcher(Request(origin.url()))
        await fetcher.close()
        assert ["cookie" in seen.headers for seen in origin.seen] == [False, False]
        assert origin.connections == 1  # and the connection is


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:])),
        ("gzip", gzip.compress(TEXT) + bytes(64)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT)),
        ("zstd", zstandard.compress(TEXT[:999]) + zstandard.compress(TEXT[999:])),
        ("gzip, br", brotli.compress(gzip.compress(TEXT))),
        ("br, zstd", zstandard.compress(brotli.compress(TEXT))),
        ("identity", TEXT),
        ("utf-8", TEXT),
    ],
)
@pytest.mark.parametrize("step", [1_000_000, 7])
async def test_codings_are_undone_however_they_arrive(coding: str, packed: bytes, step: int) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
        for start in range(0, min(len(packed), 700), step):
            yield packed[start : min(start + step, 700)]
        yield packed[700:]

    response, _ = await ask(lambda _: parts())
    assert response.body == TEXT


async def test_a_head_answer_has_no_body_to_undo() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99999999999\r\n\r\n"
    response, _ = await ask(lambda _: head, method="HEAD")
    assert response.body == b""


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
async def test_a_packed_body_that_breaks_off_is_transient(coding: str) -> None:
    packed = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard.compress, "deflate": zlib.compress}
    half = packed[coding](bytes(range(256)) * 50)[:-5]
    with pytest.raises(Transient, match="broke off"):
        await ask(lambda _: reply(body=half, Content_Encoding=coding))


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate", "compress"])
async def test_a_body_that_contradicts_its_headers_is_a_permanent_error(coding: str) -> None:
    with pytest.raises(Permanent, match="cod"):
        await ask(lambda _: reply(body=b"\xff<html>" * 100, Content_Encoding=coding))


async def test_the_cap_is_exact() -> None:
    response, _ = await ask(lambda _: reply(body=b"x" * 1000), max_bytes=1000)
    assert len(response.body) == 1000
    response, _ = await ask(lambda _: reply(body=gzip.compress(b"x" * 1000), Content_Encoding="gzip"), max_bytes=1000)
    assert len(response.body) == 1000
    for body, coding in ((b"x" * 1001, "identity"), (gzip.compress(b"x" * 1001), "gzip")):
        with pytest.raises(Refused, match="1,000 bytes"):
            await ask(partial(_packed, body, coding), max_bytes=1000)


def _packed(body: bytes, coding: str, _: Seen) -> bytes:
    return reply(body=body, Content_Encoding=coding)


async def stalled(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    await asyncio.Event().wait()


async def cut(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: b"", Transient),
        (lambda _: b"nonsense\r\n\r\n", Transient),
        (lambda _: cut(b"HTTP/1.1 200 OK\r\nContent-Le"), Transient),
        (lambda _: cut(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), Transient),
        (lambda _: cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), Transient),
        (lambda _: cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab"), Transient),
        (lambda _: stalled(), TimedOut),
        (lambda _: stalled(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), TimedOut),
    ],
)
async def test_failures_of_the_other_side_are_transient(
    answer: Callable[[Seen], Answer], error: type[Transient]
) -> None:
    with pytest.raises(Transient, match=r"^http://127\.0\.0\.1:\d+/p: ") as caught:
        await ask(answer, "/p?key=1", timeout=0.3)
    assert type(caught.value) is error


async def test_a_refused_connection_is_transient() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{unused.getsockname()[1]}"
        fetcher = HttpFetcher(EgressGuard([endpoint]), SystemClock(), lambda _: None)
        with pytest.raises(Transient, match="no connection"):
            await fetcher(Request(f"http://{endpoint}/"))
        await fetcher.close()


async def test_an_answer_that_changes_the_protocol_frees_its_connection() -> None:
    async with Origin(lambda _: reply(101, Upgrade="websocket", Connection="upgrade")) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None, limit=1)
        for _ in range(3):
            with pytest.raises(Transient, match="another protocol"):
                await fetcher(Request(origin.url(), timeout=2))
        await fetcher.close()
        assert origin.connections == 3


async def test_an_untrusted_certificate_is_permanent() -> None:
    async with Origin(lambda _: reply(), tls=True) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None)
        with pytest.raises(Permanent, match="certificate"):
            await fetcher(Request(origin.url()))
        await fetcher.close()
        assert origin.seen == []


async def test_nothing_is_sent_twice_when_a_kept_connection_dies() -> None:
    async with Origin(lambda seen: reply() if seen.target == "/first" else b"") as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None)
        await fetcher(Request(origin.url("/first")))
        with pytest.raises(Transient):
            await fetcher(Request(origin.url("/second")))
        await fetcher.close()
        assert [seen.target for seen in origin.seen] == ["/first", "/second"]


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("POST", 307, "POST"), ("POST", 308, "POST"),
     ("GET", 302, "GET"), ("HEAD", 303, "HEAD"), ("PUT", 308, "PUT")],
)  # fmt: skip
async def test_a_redirect_keeps_or_changes_the_method(method: str, status: int, then: str) -> None:
    def answer(seen: Seen) -> bytes:
        return reply(status, Location="end?x=1#y") if seen.target == "/a/start" else reply()

    body = b"{}" if method in ("POST", "PUT") else None
    response, origin = await ask(
        answer, "/a/start", method=method, body=body, headers={"Content-Type": "application/json"}
    )
    end = origin.seen[-1]
    assert response.url == origin.url("/a/end?x=1")
    assert (end.target, end.method, end.body) == ("/a/end?x=1", then, body if then == method and body else b"")
    assert ("content-type" in end.headers) == bool(end.body)


async def test_redirects_are_counted() -> None:
    def answer(seen: Seen) -> bytes:
        left = int(seen.target[1:])
        return reply(302, Location=f"/{left - 1}") if left else reply(body=b"end")

    response, _ = await ask(answer, "/5")
    assert response.body == b"end"
    with pytest.raises(Refused, match="more than 5 times"):
        await ask(answer, "/6")
    response, origin = await ask(answer, "/6", max_redirects=0)
    assert (response.status, len(origin.seen)) == (302, 1)


async def test_every_hop_is_announced_before_its_request() -> None:
    hops: list[tuple[str, int]] = []

    async def on_hop(url: str) -> None:
        hops.append((url, len(origin.seen)))

    def answer(seen: Seen) -> bytes:
        return reply(302, Location="/end?a=b#c") if seen.target == "/" else reply()

    async with Origin(answer) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None)
        await fetcher(Request(origin.url(), on_hop=on_hop))
        await fetcher.close()
    assert hops == [(origin.url("/end?a=b"), 1)]


@pytest.mark.parametrize("proxied", [False, True])
async def test_the_time_of_an_answer_is_the_sites_alone_without_the_waits_for_lanes(proxied: bool) -> None:
    clock = FakeClock()

    async def on_hop(url: str) -> None:
        await clock.sleep(60)

    def answer(seen: Seen) -> bytes:
        clock.advance(0.25)
        left = int(seen.target[1:])
        return reply(302, Location=f"/{left - 1}") if left else reply()

    async with Origin(answer) as origin, LittleProxy() as proxy:
        guard = EgressGuard([origin.endpoint, proxy.address])
        fetcher = HttpFetcher(guard, clock, lambda _: None, endpoint_of=lambda _: proxy.endpoint())
        response = await fetcher(Request(origin.url("/3"), on_hop=on_hop, proxy=1 if proxied else None))
        await fetcher.close()
    assert clock.monotonic() == 1_000 + 3 * 60 + 4 * 0.25
    assert response.elapsed_ms == 1_000


async def test_a_refused_hop_is_not_requested() -> None:
    async def on_hop(url: str) -> None:
        raise RateLimited("not now")

    async with Origin(lambda _: reply(302, Location="/end")) as origin:
        fetcher = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: None)
        with pytest.raises(RateLimited):
            await fetcher(Request(origin.url(), on_hop=on_hop))
        await fetcher.close()
        assert len(origin.seen) == 1
