"""The gate serves only the browser of its visit: any other client on the machine needs a password."""

import base64
import json
from collections.abc import Sequence

import pytest

from forager.core.clock import SystemClock
from forager.core.http import Request, WaitFor
from forager.fetch.browser.chromium import ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.browser.gate import USERNAME, Gate, Passage
from forager.fetch.guard import EgressGuard
from tests.support.chromium import require_chromium
from tests.support.gate import Client, WatchedGate, get, passage, signature
from tests.support.origin import Origin, Seen, reply

PAGE = b"""<!doctype html><img src="/picture.png"><script>(async () => {
    const told = [];
    told.push(await (await fetch('/data')).text());
    const socket = new WebSocket(location.origin.replace('http', 'ws') + '/socket');
    await new Promise(end => socket.onclose = end);
    const worker = new Worker('/worker.js');
    told.push(await new Promise(end => worker.onmessage = event => end(event.data)));
    const sign = document.createElement('p'); sign.id = 'done'; sign.textContent = JSON.stringify(told);
    document.body.append(sign);
})()</script>"""
WORKER = b"(async () => postMessage(await (await fetch('/data?worker')).text()))()"


async def heard(gate: Passage, *lines: str) -> tuple[int, bytes]:
    client = await Client.to(gate)
    client.say_unsigned("\r\n".join([*lines, "", ""]))
    answer = await client.rest()
    client.writer.close()
    return int(answer.split(b" ")[1]), answer


def wrong(gate: Passage) -> Sequence[str]:
    right = signature(gate)
    return [
        "X: y",
        signature(gate, password=""),
        signature(gate, password="wrong"),
        signature(gate, password=gate.password.reveal()[:-1]),
        signature(gate, user="other"),
        right.replace("Basic", "Bearer"),
        right.replace("Basic ", "Basic"),
        right.replace("Proxy-Authorization", "Authorization"),
        f"{right}\r\n{right}",
        "Proxy-Authorization: Basic ÿ",
        "Proxy-Authorization:",
    ]


async def test_a_client_without_the_password_gets_407_and_nothing_else__S1() -> None:
    async with Origin(lambda _: reply(body=b"page")) as origin, passage(origin.endpoint) as gate:
        for first in (f"GET {origin.url()} HTTP/1.1", f"CONNECT {origin.endpoint} HTTP/1.1"):
            for said in wrong(gate):
                status, answer = await heard(gate, first, said)
                assert (status, b"\r\nProxy-Authenticate: Basic " in answer) == (407, True), said
                assert gate.password.reveal().encode() not in answer
        assert origin.connections == 0
        client = await Client.to(gate)
        client.say_unsigned("\r\n".join([f"GET {origin.url()} HTTP/1.1", signature(gate), "", ""]))
        assert await client.answer() == (200, b"page")  # the control: it is the password that lets in
        client.writer.close()
        assert gate.refusals == 0


async def test_requests_without_the_password_are_not_even_resolved__S3() -> None:
    lookups: list[str] = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        lookups.append(host)
        return ["127.0.0.1"]

    async with passage(resolver=resolver) as gate:
        assert (await heard(gate, "GET http://10.0.0.1/ HTTP/1.1"))[0] == 407
        assert (await heard(gate, "CONNECT a.test:443 HTTP/1.1"))[0] == 407
        assert (lookups, gate.refusals) == ([], 0)


async def test_the_password_is_sent_with_every_request_of_a_connection() -> None:
    async with Origin(lambda _: reply(body=b"page")) as origin, passage(origin.endpoint) as gate:
        client = await Client.to(gate)
        client.say(get(origin.url()))
        assert await client.answer() == (200, b"page")
        client.say_unsigned(get(origin.url()))
        assert (await client.answer())[0] == 407
        client.writer.close()
        assert len(origin.seen) == 1


async def test_each_visit_has_a_password_of_its_own_that_is_shown_nowhere__S8() -> None:
    gate = Gate(EgressGuard())
    async with gate.open() as one, gate.open() as other:
        assert one.password.reveal() != other.password.reveal()
        assert len(base64.urlsafe_b64decode(f"{one.password.reveal()}=")) >= 16
        assert one.password.reveal() not in f"{one.url}{vars(one)['password']!r}"
        assert (await heard(one, "GET http://a.test/ HTTP/1.1", signature(other)))[0] == 407


@pytest.mark.parametrize("tls", [False, True])
async def test_all_requests_of_a_page_pass_with_the_password_and_no_site_sees_it__S7(tls: bool) -> None:
    def answer(seen: Seen) -> bytes:
        match seen.target.partition("?")[0]:
            case "/":
                return reply(body=PAGE, Content_Type="text/html")
            case "/worker.js":
                return reply(body=WORKER, Content_Type="text/javascript")
            case "/data":
                return reply(body=seen.target.encode())
            case _:
                return reply(404)

    launcher = ChromiumLauncher(require_chromium(), extra=("--ignore-certificate-errors",))
    async with Origin(answer, tls=tls) as site:
        guard = EgressGuard([site.endpoint])
        gate = WatchedGate(guard)
        fetch = BrowserFetcher(guard, gate, SystemClock(), launcher)
        try:
            script = (WaitFor("#done", timeout=20, must=True),)
            response = await fetch(Request(site.url(), render="browser", script=script, delay=(0.0, 0.0)))
        finally:
            await fetch.close()
            await launcher.close()
    assert json.dumps(["/data", "/data?worker"], separators=(",", ":")).encode() in response.body
    asked = {seen.target for seen in site.seen}
    assert asked >= {"/", "/picture.png", "/data", "/socket", "/worker.js", "/data?worker"}
    (only,) = gate.passages
    mark = signature(only).rpartition(" ")[2].encode()
    assert not any(mark in seen.raw or only.password.reveal().encode() in seen.raw for seen in site.seen)


async def test_the_gates_password_is_not_sent_to_a_site_that_requests_one__S7() -> None:
    def answer(seen: Seen) -> bytes:
        return reply(401, b"members only", WWW_Authenticate='Basic realm="Forager"', Content_Type="text/html")

    async with Origin(answer) as site:
        launcher = ChromiumLauncher(require_chromium())
        guard = EgressGuard([site.endpoint])
        fetch = BrowserFetcher(guard, Gate(guard), SystemClock(), launcher)
        try:
            response = await fetch(Request(site.url(), render="browser"))
        finally:
            await fetch.close()
            await launcher.close()
    assert response.status == 401
    assert b"members only" in response.body
    assert not any("authorization" in seen.headers or USERNAME.encode() in seen.raw for seen in site.seen)
