"""Nothing but the public internet is reached through the gate: as URL, as tunnel, by name, behind a proxy."""

import errno
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from forager.core.errors import Refused, Transient
from forager.core.proxies import ProxyProtocol
from forager.fetch.http.connect import AddrInfo
from tests.support.gate import Client, get, passage, said
from tests.support.origin import Origin, reply
from tests.support.proxy import LittleProxy
from tests.support.ssrf import forbidden_urls, public_urls

PUBLIC = "93.184.215.14"


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


async def test_the_canary_detects_a_gate_that_may_reach_it__S1() -> None:
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
async def test_a_bad_answer_of_the_resolver_leads_nowhere__S3(answers: Sequence[str] | Exception) -> None:
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


async def test_refusals_are_counted_and_reported_by_url__S1() -> None:
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
