"""The gate for browsers, spoken to raw: what may pass does, what may not does not, and no trick gets round it."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import uvloop

from forager.core.errors import ProxyFailed, Refused, Transient
from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.fetch import EgressGuard
from forager.fetch.browser.gate import Gate, Passage
from forager.fetch.connect import AddrInfo
from tests.support.origin import Origin, Seen, reply, trusting
from tests.support.proxy import LittleProxy
from tests.support.ssrf import forbidden_urls, public_urls

PUBLIC = "93.184.215.14"


async def everything_is_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def passage(
    *allow: str, upstream: ProxyEndpoint | None = None, resolver=everything_is_here, **options
) -> AsyncIterator[Passage]:
    async with Gate(EgressGuard(allow, resolver=resolver), tls=trusting(), **options).open(upstream) as opened:
        yield opened


class Client:
    """A connection to the gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, passage: Passage) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", passage.port))

    def say(self, *parts: str | bytes) -> None:
        self.writer.writelines(part.encode() if isinstance(part, str) else part for part in parts)

    async def answer(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        return int(head.split(b" ")[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """All until it is closed."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


async def said(passage: Passage, *parts: str | bytes) -> int:
    """The status of the answer to this, 0 for none."""
    client = await Client.to(passage)
    client.say(*parts)
    answer = await client.rest()
    client.writer.close()
    return int(answer.split(b" ")[1]) if answer else 0


def get(url: str, *headers: str) -> str:
    return "\r\n".join([f"GET {url} HTTP/1.1", "Host: anything", *headers, "", ""])


# ── what passes ──


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
        request = (
            f"POST http://{endpoint}/up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks
        )
        for start in range(0, len(request), step):
            client.say(request[start : start + step])
            await client.writer.drain()
        assert await client.answer() == (200, b"thanks")
        client.say(get(f"http://{endpoint}/next"))
        assert await client.answer() == (200, b"again")
        client.writer.close()
    server.close()
    assert bytes(got).split(b"\r\n\r\n", 1)[1].startswith(chunks)
    assert bytes(got).endswith(f"GET /next HTTP/1.1\r\nHost: {endpoint}\r\n\r\n".encode())


async def test_answers_of_every_kind_pass_untouched() -> None:
    async def until_closed() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\npart"
        yield b" by part"

    async def chunked() -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield b"3\r\nabc\r\n0\r\n\r\n"

    for answer in (until_closed, chunked):
        async with Origin(lambda _, a=answer: a()) as origin, passage(origin.endpoint) as gate:
            client = await Client.to(gate)
            client.say(get(origin.url()))
            assert await client.rest() == b"".join([part async for part in answer()])
            client.writer.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", [None, "http", "https", "socks5"])
def test_a_tunnel_carries_tls_both_ways(protocol: ProxyProtocol | None, loop) -> None:
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
            client.say(f"POST / HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n", data)
            assert await client.answer() == (200, data * 2)
            client.writer.close()
            assert proxy.asked == ([f"127.0.0.1:{origin.port}"] if protocol else [])

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
def test_a_plain_request_goes_through_the_proxy(protocol: ProxyProtocol, loop) -> None:
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


# ── S1, S3: what does not pass ──


def target_of(url: str) -> str:
    parts = url.replace("\\", "/").partition("//")[2]
    return parts.split("/")[0]


@pytest.mark.parametrize("protocol", [None, "http", "socks5"])
async def test_no_forbidden_url_passes_in_any_form__S1(protocol: ProxyProtocol | None) -> None:
    async with Origin(lambda _: reply(body=b"internal")) as canary, LittleProxy(protocol or "http") as proxy:
        urls = forbidden_urls(canary.port)
        assert len(urls) >= 400
        upstream = proxy.endpoint() if protocol else None
        async with passage(proxy.address, upstream=upstream) as gate:
            urls = [*urls, f"http://rebind.test:{canary.port}/", f"http://localhost:{canary.port}/"]
            for url in urls:
                form = url if url.startswith("http://") else url.replace("https://", "http://", 1)
                assert await said(gate, get(form)) in (400, 403), url
                assert await said(gate, f"CONNECT {target_of(url)} HTTP/1.1\r\n\r\n") in (400, 403), url
            for scheme in ("ftp", "file", "gopher", "ws", "https"):
                assert await said(gate, get(f"{scheme}://127.0.0.1:{canary.port}/")) in (400, 403)
        assert (canary.connections, proxy.asked) == (0, [])


async def test_the_canary_hears_a_gate_that_may_reach_it__S1() -> None:
    """Negative control: silence above is the guard's work, not a deaf canary."""
    async with Origin(lambda _: reply(body=b"internal")) as canary, passage("127.0.0.0/8") as gate:
        plain, tunnel = await Client.to(gate), await Client.to(gate)
        plain.say(get(canary.url()))
        assert await plain.answer() == (200, b"internal")
        tunnel.say(f"CONNECT {canary.endpoint} HTTP/1.1\r\n\r\n")
        assert (await tunnel.answer())[0] == 200
        plain.writer.close()
        tunnel.writer.close()
        assert canary.connections == 2


async def test_public_controls_pass_and_are_dialled__S1() -> None:
    attempted: list[tuple[str, int]] = []

    def dialer(info: AddrInfo) -> socket.socket:
        attempted.append((info[4][0], info[4][1]))
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no connection in this test")

    async def resolver(host: str, port: int) -> Sequence[str]:
        return [PUBLIC]

    urls = [url.replace("faß", "xn--fa-hia") for url in public_urls()]  # as a browser writes it
    assert len(urls) >= 50
    async with passage(resolver=resolver, dialer=dialer) as gate:
        for url in urls:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            authority = parts.netloc if parts.port else f"{parts.netloc}:{port}"
            before = len(attempted)
            assert await said(gate, f"CONNECT {authority} HTTP/1.1\r\n\r\n") == 502
            assert len(attempted) == before + 1
            assert await said(gate, get(url.replace("https:", "http:"))) == 502
            assert len(attempted) == before + 2
        assert gate.refusals == 0


async def test_a_name_is_looked_up_once_in_a_visit_and_dialled_there__S3() -> None:
    lookups: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"] if len(lookups) == 1 else ["10.0.0.1"]

    async with Origin(lambda _: reply()) as origin:
        allow = f"a.test:{origin.port}"
        async with passage(allow, resolver=rebinding) as gate:
            for _ in range(3):
                client = await Client.to(gate)
                client.say(get(origin.url("/", "a.test")))
                assert (await client.answer())[0] == 200
                client.writer.close()
        assert lookups == ["a.test"]


@pytest.mark.parametrize(
    "answers", [["10.0.0.1"], [PUBLIC, "127.0.0.1"], [PUBLIC, "::1"], [PUBLIC, "nonsense"], [], OSError("gone")]
)
async def test_a_bad_answer_of_the_resolver_leads_nowhere__S3(answers) -> None:
    def dialer(info: AddrInfo) -> socket.socket:
        raise AssertionError(info)

    async def resolver(host: str, port: int) -> Sequence[str]:
        if isinstance(answers, Exception):
            raise answers
        return answers

    async with passage(resolver=resolver, dialer=dialer) as gate:
        expected = 403 if isinstance(answers, list) and answers else 502
        assert await said(gate, "CONNECT mixed.test:443 HTTP/1.1\r\n\r\n") == expected
        assert await said(gate, get("http://mixed.test/")) == expected
        assert isinstance(gate.error_of("https://mixed.test/x"), Refused if expected == 403 else Transient)


async def test_refusals_are_counted_and_told_by_url__S1() -> None:
    async with passage() as gate:
        client = await Client.to(gate)
        client.say(get("http://169.254.169.254/latest?key=1"))
        status, body = await client.answer()
        assert status == 403
        assert b"169.254.169.254 port 80 is not a public web address" in body
        client.writer.close()
        await said(gate, "CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n")
        assert gate.refusals == 2
        assert isinstance(gate.error_of("http://169.254.169.254/other"), Refused)
        assert isinstance(gate.error_of("https://10.0.0.1/"), Refused)
        assert gate.error_of("https://example.com/") is None


# ── hostile on either side ──

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
        async with asyncio.timeout(5):
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


async def test_a_site_that_plays_a_proxy_asks_no_browser_for_a_password() -> None:
    async with Origin(lambda _: reply(407, Proxy_Authenticate="Basic")) as origin, passage(origin.endpoint) as gate:
        assert await said(gate, get(origin.url())) == 502
        assert gate.proxy_failed is None


@pytest.mark.parametrize("protocol", ["http", "https", "socks5"])
async def test_a_proxy_that_fails_is_known_to_be_what_failed(protocol: ProxyProtocol) -> None:
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
