"""The gate between hostile ends: no request hides in another, nothing grows without bound, and blame falls right."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from forager.core.errors import ProxyFailed, Transient
from forager.core.proxies import ProxyProtocol
from forager.fetch.browser.gate import Gate, Passage
from forager.fetch.guard import EgressGuard
from tests.support.gate import Client, everything_is_here, get, passage, said
from tests.support.origin import Origin, Seen, reply
from tests.support.proxy import LittleProxy

SMUGGLED = "GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\n\r\n"
JUNK = [
    "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello",
    "POST {url} HTTP/1.1\r\nHost: x\r\nX: y\r\n Content-Length: 5\r\n\r\nhello",
    "GET {url} HTTP/1.1\nHost: x\n\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "GET {url} HTTP/1.1\r\nHost: x\x00\r\n\r\n",
    "GET {url} HTTP/2.0\r\n\r\n",
    "GET  {url} HTTP/1.1\r\n\r\n",
    "GET /path HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "GET {url}#x HTTP/1.1\r\n\r\n",
    "GET http:// HTTP/1.1\r\n\r\n",
    "GET {url}\xff HTTP/1.1\r\n\r\n",
    "CONNECT HTTP/1.1\r\n\r\n",
    "CONNECT {endpoint}/x HTTP/1.1\r\n\r\n",
    "CONNECT example.com HTTP/1.1\r\n\r\n",
    "CONNECT example.com:443:443 HTTP/1.1\r\n\r\n",
    "CONNECT example.com:0 HTTP/1.1\r\n\r\n",
    "CONNECT example.com:99999 HTTP/1.1\r\n\r\n",
    "CONNECT user@{endpoint} HTTP/1.1\r\n\r\n",
    "CONNECT http://{endpoint}/ HTTP/1.1\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "\x05\x01\x00\r\n\r\n",
    "GET {url} HTTP/1.1\r\n" + "X: y\r\n" * 300 + "\r\n",
]


@pytest.mark.parametrize("junk", JUNK)
async def test_what_is_not_plainly_one_request_is_refused(junk: str) -> None:
    async with Origin(lambda _: reply()) as origin, passage(origin.endpoint) as gate:
        text = junk.replace("{url}", origin.url()).replace("{endpoint}", origin.endpoint)
        assert await said(gate, text.encode("latin-1")) in (400, 403)
        assert origin.seen == []


@pytest.mark.parametrize(
    "chunks",
    ["5\r\nhelloGET", "5;x=y\r\nhello\r\n", "-1\r\n", "0x5\r\nhello\r\n", "5\nhello\r\n", "0\r\nX: y\r\n\r\n", "f" * 30,
     "\r\n", " 5\r\nhello\r\n"],
)  # fmt: skip
async def test_chunks_that_two_could_read_differently_end_the_connection(chunks: str) -> None:
    got = bytearray()

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            got.extend(data)
        writer.close()

    server = await asyncio.start_server(raw, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with passage(endpoint) as gate:
        head = f"POST http://{endpoint}/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert await said(gate, head, chunks, "\r\n", SMUGGLED) in (400, 403)
    server.close()
    assert b"10.0.0.1" not in got


async def test_every_request_of_a_connection_is_checked__S1() -> None:
    """A pipelined one, one behind a body, one for another site."""
    async with Origin(lambda _: reply()) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        client.say(f"POST {origin.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", SMUGGLED)
        rest = await client.rest()
        assert rest.count(b"HTTP/1.1 403") == 1
        client.writer.close()
        assert [seen.body for seen in origin.seen] == [b"hi"]
        assert gate.refusals == 1


async def test_a_connection_serves_one_site_so_that_none_can_answer_for_another() -> None:
    poison = reply(body=b"first") + reply(body=b"poison")
    async with (
        Origin(lambda _: poison) as evil,
        Origin(lambda _: reply(body=b"good")) as good,
        passage(evil.endpoint, good.endpoint) as gate,
    ):
        client = await Client.to(gate)
        client.say(get(evil.url()))
        assert await client.answer() == (200, b"first")
        assert await client.answer() == (200, b"poison")
        client.say(get(good.url()))
        assert await client.rest() == b""
        client.writer.close()
        assert good.seen == []
        fresh = await Client.to(gate)
        fresh.say(get(good.url()))
        assert await fresh.answer() == (200, b"good")
        fresh.writer.close()


async def test_a_head_without_an_end_is_cut_at_its_cap() -> None:
    async with passage() as gate:
        client = await Client.to(gate)
        client.say(b"GET http://example.com/ HTTP/1.1\r\nX: " + b"x" * 65_600)
        assert (await client.answer())[0] == 431
        client.writer.close()


async def test_connections_of_a_visit_are_bounded() -> None:
    async with passage(most=3) as gate:
        clients = [await Client.to(gate) for _ in range(4)]
        assert (await clients[3].answer())[0] == 503
        for client in clients:
            client.writer.close()


async def test_what_is_slow_or_idle_is_cut() -> None:
    async with Origin(lambda _: reply()) as origin, passage(origin.endpoint, idle=0.05) as gate:
        silent, tunnel = await Client.to(gate), await Client.to(gate)
        tunnel.say(f"CONNECT {origin.endpoint} HTTP/1.1\r\n\r\n")
        await tunnel.reader.readuntil(b"\r\n\r\n")
        slow = await Client.to(gate)

        async def drip() -> None:
            while True:
                slow.say(b"G")
                await asyncio.sleep(0.005)

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(60):
            assert [await client.rest() for client in (silent, tunnel, slow)] == [b"", b"", b""]
        dripping.cancel()
        for client in (silent, tunnel, slow):
            client.writer.close()


@pytest.mark.parametrize("answer", [b"", b"HT", b"nonsense", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
async def test_a_site_that_breaks_off_ends_the_connection(answer: bytes) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield answer

    async with Origin(lambda _: parts()) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        client.say(get(origin.url()))
        assert await client.rest() == answer
        client.writer.close()


async def test_a_site_that_imitates_a_proxy_cannot_make_a_browser_prompt_for_a_password() -> None:
    async with Origin(lambda _: reply(407, Proxy_Authenticate="Basic")) as origin, passage(origin.endpoint) as gate:
        assert await said(gate, get(origin.url())) == 502
        assert gate.proxy_failed is None


@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
async def test_a_failing_proxy_is_recognised_as_the_cause(protocol: ProxyProtocol) -> None:
    async with LittleProxy(protocol, "u", "right") as proxy:
        for request in ("CONNECT a.test:8443 HTTP/1.1\r\n\r\n", get("http://a.test:8081/")):
            async with passage("127.0.0.0/8", upstream=proxy.endpoint(password="wrong")) as gate:
                assert await said(gate, request) == 502
                assert isinstance(gate.proxy_failed, ProxyFailed)
                assert "wrong" not in str(gate.proxy_failed)
    async with passage("127.0.0.0/8", upstream=proxy.endpoint()) as gate:  # it is gone now
        assert await said(gate, "CONNECT a.test:8443 HTTP/1.1\r\n\r\n") == 502
        assert isinstance(gate.proxy_failed, ProxyFailed)


async def test_a_refused_site_is_not_the_proxys_failure() -> None:
    async with (
        LittleProxy("socks5", refusal=b"\x05\x05\x00\x01" + bytes(6)) as proxy,
        passage("127.0.0.0/8", upstream=proxy.endpoint()) as gate,
    ):
        assert await said(gate, "CONNECT a.test:8443 HTTP/1.1\r\n\r\n") == 502
        assert gate.proxy_failed is None
        assert isinstance(gate.error_of("https://a.test:8443/"), Transient)


async def test_an_https_proxy_must_show_a_trusted_certificate() -> None:
    async with LittleProxy("https", "u", "p") as proxy:
        gate = Gate(EgressGuard(["127.0.0.0/8"], resolver=everything_is_here), tls=ssl.create_default_context())
        async with gate.open(proxy.endpoint()) as opened:
            assert await said(opened, "CONNECT a.test:8443 HTTP/1.1\r\n\r\n") == 502
            assert proxy.heads == []


async def test_many_at_once_pass_without_mixing() -> None:
    async def ask(gate: Passage, origin: Origin, n: int) -> bool:
        client = await Client.to(gate)
        client.say(get(origin.url(f"/{n}"), "Connection: keep-alive"))
        body = (await client.answer())[1]
        client.writer.close()
        return body == f"/{n}".encode()

    def answer(seen: Seen) -> bytes:
        return reply(body=seen.target.encode())

    async with Origin(answer) as origin, passage(origin.endpoint) as gate:
        assert all(await asyncio.gather(*(ask(gate, origin, n) for n in range(100))))
