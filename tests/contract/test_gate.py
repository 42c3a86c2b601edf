"""The gate for browsers, spoken to raw: what may pass does, in every form that a browser uses."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import uvloop

from forager.core.proxies import ProxyProtocol
from tests.support.gate import Client, get, passage, signature
from tests.support.origin import Origin, Seen, reply, trusting
from tests.support.proxy import LittleProxy


async def test_plain_requests_pass_one_after_the_other_on_one_connection() -> None:
    async with Origin(lambda seen: reply(body=seen.raw)) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        for n in range(5):
            client.say(get(origin.url(f"/p%20{n}?a=%2F"), "Proxy-Connection: keep-alive", "Accept: a, b", "Te: x"))
            _, echoed = await client.answer()
            assert echoed == f"GET /p%20{n}?a=%2F HTTP/1.1\r\nHost: {origin.endpoint}\r\nAccept: a, b\r\n\r\n".encode()
        assert origin.connections == 1
        client.writer.close()


@pytest.mark.parametrize("size", [0, 1, 300_000])
async def test_uploads_pass_whole(size: int) -> None:
    data = os.urandom(size)
    async with Origin(lambda seen: reply(body=seen.body)) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        for _ in range(2):
            client.say(f"POST {origin.url()} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n", data)
            assert await client.answer() == (200, data)
        client.writer.close()
        assert gate.sent > 2 * size
        assert gate.received > 2 * size


@pytest.mark.parametrize("step", [1, 7, 10_000])
async def test_chunked_uploads_pass_as_they_are(step: int) -> None:
    chunks = b"5\r\nhello\r\n3\r\nG\r\n\r\n0\r\n\r\n"
    got = bytearray()

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(reply(body=b"thanks"))
        got.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply(body=b"again"))

    server = await asyncio.start_server(raw, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with passage(endpoint) as gate:
        client = await Client.to(gate)
        lines = [f"POST http://{endpoint}/up HTTP/1.1", signature(gate), "Transfer-Encoding: chunked", "", ""]
        request = "\r\n".join(lines).encode() + chunks
        for start in range(0, len(request), step):
            client.say_unsigned(request[start : start + step])
            await client.writer.drain()
        assert await client.answer() == (200, b"thanks")
        client.say(get(f"http://{endpoint}/next"))
        assert await client.answer() == (200, b"again")
        client.writer.close()
    server.close()
    assert bytes(got).split(b"\r\n\r\n", 1)[1].startswith(chunks)
    assert bytes(got).endswith(f"GET /next HTTP/1.1\r\nHost: {endpoint}\r\n\r\n".encode())


NewLoop = Callable[[], asyncio.AbstractEventLoop]


def _given(answer: Callable[[], AsyncIterator[bytes]], _: Seen) -> AsyncIterator[bytes]:
    return answer()


async def test_answers_of_every_kind_pass_untouched() -> None:
    async def until_closed() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\npart"
        yield b" by part"

    async def chunked() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield b"3\r\nabc\r\n0\r\n\r\n"

    for answer in (until_closed, chunked):
        async with Origin(partial(_given, answer)) as origin, passage(origin.endpoint) as gate:
            client = await Client.to(gate)
            client.say(get(origin.url()))
            assert await client.rest() == b"".join([part async for part in answer()])
            client.writer.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", [None, "http", "https", "socks5"])
def test_a_tunnel_carries_tls_both_ways(protocol: ProxyProtocol | None, loop: NewLoop) -> None:
    async def run() -> None:
        async with (
            Origin(lambda seen: reply(body=seen.body * 2), tls=True) as origin,
            LittleProxy(protocol or "http", "u", "p") as proxy,
            passage("127.0.0.0/8", upstream=proxy.endpoint() if protocol else None) as gate,
        ):
            client = await Client.to(gate)
            client.say(f"CONNECT a.test:{origin.port} HTTP/1.1\r\nHost: a.test:{origin.port}\r\n\r\n")
            assert b" 200 " in await client.reader.readuntil(b"\r\n\r\n")
            await client.writer.start_tls(trusting(), server_hostname="a.test")
            data = os.urandom(500_000)
            client.say_unsigned(f"POST / HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n", data)
            assert await client.answer() == (200, data * 2)
            client.writer.close()
            assert proxy.asked == ([f"127.0.0.1:{origin.port}"] if protocol else [])

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
def test_a_plain_request_goes_through_the_proxy(protocol: ProxyProtocol, loop: NewLoop) -> None:
    async def run() -> None:
        async with (
            Origin(lambda seen: reply(body=seen.raw)) as origin,
            LittleProxy(protocol, "u", "p") as proxy,
            passage("127.0.0.0/8", upstream=proxy.endpoint()) as gate,
        ):
            client = await Client.to(gate)
            client.say(get(origin.url("/p?q=1", "a.test")))
            status, echoed = await client.answer()
            assert (status, echoed.split(b"\r\n")[0]) == (200, b"GET /p?q=1 HTTP/1.1")
            forwarded = origin.url("/p?q=1", "a.test")
            assert proxy.asked == [f"127.0.0.1:{origin.port}" if protocol == "socks5" else forwarded]
            client.writer.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("accepts", [True, False])
async def test_a_websocket_may_open_by_upgrade(accepts: bool) -> None:
    """Only once the site has changed its protocol are the next bytes no request."""
    after = bytearray()

    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in head
        writer.write(reply(101, Upgrade="websocket") if accepts else reply(403))
        after.extend(await reader.read(100))
        writer.write(b"frame")

    server = await asyncio.start_server(raw, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with passage(endpoint) as gate:
        client = await Client.to(gate)
        client.say(get(f"http://{endpoint}/ws", "Connection: keep-alive, Upgrade", "Upgrade: websocket"), b"\x81\x05fr")
        assert (await client.answer())[0] == (101 if accepts else 403)
        if accepts:
            assert await client.reader.readexactly(5) == b"frame"
            assert bytes(after) == b"\x81\x05fr"
        else:
            client.say(b"\r\n\r\n")
            assert (await client.answer())[0] == 400
            assert bytes(after) == b""
        client.writer.close()
    server.close()


async def test_a_slow_reader_holds_up_the_site_instead_of_filling_the_memory() -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while given < 200_000_000:
            given += 100_000
            yield bytes(100_000)

    async with Origin(lambda _: endless()) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        client.say(get(origin.url()))
        await client.reader.readexactly(1)
        before = -1
        while before != given:  # until nothing moves any more
            before = given
            await asyncio.sleep(0.05)
        assert given < 50_000_000
        client.writer.transport.abort()


@pytest.mark.parametrize("first", ["browser", "site"])
async def test_a_tunnel_that_both_ends_have_closed_is_gone(first: str) -> None:
    async def raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if first == "site":
            writer.write_eof()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(raw, "127.0.0.1", 0)
    endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with passage(endpoint, most=4) as gate:
        for _ in range(20):  # more than may be open at once
            client = await Client.to(gate)
            client.say(f"CONNECT {endpoint} HTTP/1.1\r\n\r\n")
            assert (await client.answer())[0] == 200
            if first == "browser":
                client.writer.write_eof()
                assert await client.rest() == b""
            else:
                assert await client.rest() == b""
                client.writer.write_eof()
            client.writer.close()
            await client.writer.wait_closed()
    server.close()


async def test_everything_is_cut_when_the_visit_ends() -> None:
    async with Origin(lambda _: reply()) as origin:
        async with passage(origin.endpoint) as gate:
            tunnel, waiting, plain = [await Client.to(gate) for _ in range(3)]
            tunnel.say(f"CONNECT {origin.endpoint} HTTP/1.1\r\n\r\n")
            await tunnel.reader.readuntil(b"\r\n\r\n")
            plain.say(get(origin.url()))
            await plain.answer()
        assert [await client.rest() for client in (tunnel, waiting, plain)] == [b"", b"", b""]
        with pytest.raises(ConnectionError):
            await Client.to(gate)
        for client in (tunnel, waiting, plain):
            client.writer.close()
