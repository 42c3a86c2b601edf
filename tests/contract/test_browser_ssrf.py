"""A real Chromium reaches nothing but what the guard permits: by navigation, redirect, subresource, WebSocket, worker.

One page asks for hundreds of forbidden URLs in one way; a canary listens where they would land, by TCP and UDP.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import ForagerError, Permanent, Refused
from forager.core.http import Request, Response
from forager.core.visit import WaitFor
from forager.fetch import EgressGuard
from forager.fetch.browser.chromium import ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.guard import Resolver
from tests.support.chromium import require_chromium
from tests.support.gate import WatchedGate
from tests.support.origin import Origin, Seen, reply
from tests.support.ssrf import forbidden_urls

PATIENCE = 60.0
WORKER = b"onmessage = async e => { await all(e.data[0], e.data[1]); postMessage('done') };\n"
# How a page can ask for a URL. Each answers when the browser is through with it, whatever came of it.
WAYS = b"""
const ended = (thing, ...names) => new Promise(end => names.forEach(name => thing.addEventListener(name, end)));
const element = (tag, set) => { const made = document.createElement(tag); set(made);
    const end = ended(made, 'load', 'error'); document.body.append(made); return end; };
const go = url => '/go?' + encodeURIComponent(url);
const socket = url => { const made = new WebSocket(url.replace(/^http/, 'ws')); return ended(made, 'close'); };
const ways = {
    fetch: url => fetch(url), post: url => fetch(url, {method: 'POST', body: 'x', mode: 'no-cors'}),
    beacon: async url => navigator.sendBeacon(url, 'x'), socket,
    image: url => element('img', it => it.src = url), script: url => element('script', it => it.src = url),
    style: url => element('link', it => { it.rel = 'stylesheet'; it.href = url }),
    frame: url => element('iframe', it => it.src = url),
    events: url => { const made = new EventSource(url); return ended(made, 'error').then(() => made.close()) },
    request: url => { const made = new XMLHttpRequest(); made.open('GET', url); made.send();
        return ended(made, 'loadend') },
    redirectedFetch: url => fetch(go(url)), redirectedImage: url => element('img', it => it.src = go(url)),
    redirectedFrame: url => element('iframe', it => it.src = go(url)),
    imported: async url => importScripts(url),
};
const soon = work => Promise.race([work, new Promise(end => setTimeout(end, 4000))]); // some never tell their end
const all = (way, urls) => Promise.allSettled(urls.map(async url => soon(ways[way](url))));
"""
PAGE = b"""<!doctype html><body><script src="/ways.js"></script><script>(async () => {
    for (const {way, urls, worker} of await (await fetch('/plan')).json()) {
        if (!worker) { await all(way, urls); continue; }
        const made = new Worker('/worker.js');
        made.postMessage([way, urls]);
        await ended(made, 'message');
    }
    const sign = document.createElement('p'); sign.id = 'done'; document.body.append(sign);
})()</script>"""
# STUN over UDP and TCP, aimed at the canary: WebRTC goes past every proxy unless it is told not to.
WEBRTC = """<!doctype html><body><script>(async () => {
    const peer = new RTCPeerConnection({iceServers: [{urls: ['stun:127.0.0.1:%d', 'stun:localhost:%d']},
        {urls: 'turn:127.0.0.1:%d?transport=tcp', username: 'u', credential: 'p'}]});
    peer.createDataChannel('x');
    const gathered = new Promise(end => peer.onicegatheringstatechange =
        () => peer.iceGatheringState == 'complete' && end());
    await peer.setLocalDescription(await peer.createOffer());
    await Promise.race([gathered, new Promise(end => setTimeout(end, 5000))]);
    const sign = document.createElement('p'); sign.id = 'done'; document.body.append(sign);
})()</script>"""


class Canary(Origin):
    """Hears every connection and every datagram at its port."""

    async def __aenter__(self) -> "Canary":
        await super().__aenter__()
        self.datagrams: list[bytes] = []
        canary = self

        class Ear(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, address: object) -> None:
                canary.datagrams.append(data)

        self._ear, _ = await asyncio.get_running_loop().create_datagram_endpoint(Ear, ("127.0.0.1", self.port))
        return self

    async def __aexit__(self, *error) -> None:
        self._ear.close()
        await super().__aexit__(*error)

    @property
    def heard(self) -> int:
        return self.connections + len(self.datagrams)


class World:
    """A site that may be visited, a canary that may not be reached, and a browser."""

    def __init__(self, stack: AsyncExitStack, executable: Path, *extra: str) -> None:
        self._stack, self._launcher = stack, ChromiumLauncher(executable, extra=extra)
        stack.push_async_callback(self._launcher.close)
        self.plan: list[dict[str, object]] = []
        self.refusals = 0
        self._browsers: dict[object, tuple[WatchedGate, BrowserFetcher]] = {}

    async def start(self) -> None:
        self.site = await self._stack.enter_async_context(Origin(self._answer))
        self.canary = await self._stack.enter_async_context(Canary(lambda _: reply(body=b"internal")))

    async def visit(self, url: str, *allow: str, resolver: Resolver | None = None, wait: bool = True) -> Response:
        gate, fetcher = self._browsers.get((allow, resolver)) or self._open(allow, resolver)
        script = (WaitFor("#done", timeout=PATIENCE, must=True),) if wait else ()
        gate.passages.clear()
        try:
            return await fetcher(Request(url, render="browser", script=script))
        finally:
            self.refusals = sum(passage.refusals for passage in gate.passages)

    def _open(self, allow: tuple[str, ...], resolver: Resolver | None) -> tuple[WatchedGate, BrowserFetcher]:
        guard = EgressGuard([self.site.endpoint, *allow], resolver=resolver)
        gate = WatchedGate(guard)
        fetcher = BrowserFetcher(guard, gate, SystemClock(), self._launcher)
        self._stack.push_async_callback(fetcher.close)
        self._browsers[allow, resolver] = gate, fetcher
        return gate, fetcher

    def _answer(self, seen: Seen) -> bytes:
        path, _, query = seen.target.partition("?")
        match path:
            case "/plan":
                return reply(body=json.dumps(self.plan).encode(), Content_Type="application/json")
            case "/ways.js":
                return reply(body=WAYS, Content_Type="text/javascript")
            case "/worker.js":
                return reply(body=WAYS + WORKER, Content_Type="text/javascript")
            case "/go":
                return reply(302, Location=_unquoted(query))
            case "/webrtc":
                page = WEBRTC % ((self.canary.port,) * 3)
                return reply(body=page.encode(), Content_Type="text/html")
            case "/page":
                return reply(body=PAGE, Content_Type="text/html")
            case _:
                return reply(404)


def _unquoted(query: str) -> str:
    return unquote(query).encode().decode("latin-1")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        made = World(stack, require_chromium())
        await made.start()
        yield made


GROUPS = {
    "by script": ["fetch", "post", "beacon", "request", "events"],
    "by element": ["image", "script", "style", "frame"],
    "by redirect": ["redirectedFetch", "redirectedImage", "redirectedFrame"],
    "by WebSocket": ["socket"],
    "by worker": ["fetch", "post", "request", "events", "redirectedFetch", "imported"],
    "by WebSocket of a worker": ["socket"],
}


SLOW = ("frame", "redirectedFrame", "imported")


def planned(group: str, urls: Sequence[str]) -> list[dict[str, object]]:
    """What a page does: a tenth of the URLs for the ways that are slow."""
    return [
        {"way": way, "urls": urls[::10] if way in SLOW else urls, "worker": "worker" in group} for way in GROUPS[group]
    ]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("group", GROUPS)
async def test_no_page_reaches_a_forbidden_url__S1(world: World, group: str) -> None:
    every = forbidden_urls(world.canary.port)
    urls = every[list(GROUPS).index(group) % 3 :: 3]  # each group another third, so that all are tried
    assert len(urls) >= 400
    world.plan = planned(group, urls)
    await world.visit(world.site.url("/page"))
    assert world.canary.heard == 0
    # Chromium reads many spellings as one address, and asks once for what looks the same; the rest was refused.
    assert world.refusals >= 150 * len([way for way in GROUPS[group] if way not in SLOW])


@pytest.mark.parametrize("group", GROUPS)
async def test_the_canary_hears_a_page_that_may_reach_it__S1(world: World, group: str) -> None:
    """Negative control: each way does leave the browser."""
    world.plan = [case | {"urls": [world.canary.url(f"/{case['way']}")]} for case in planned(group, [])]
    await world.visit(world.site.url("/page"), world.canary.endpoint)
    assert {seen.target for seen in world.canary.seen} == {f"/{way}" for way in GROUPS[group]}
    assert world.refusals == 0


async def test_no_forbidden_url_is_visited__S1(world: World) -> None:
    urls = forbidden_urls(world.canary.port)
    for url in urls:
        with pytest.raises(Refused):
            await world.visit(url, wait=False)
    assert world.canary.heard == 0


async def test_no_redirect_of_a_page_is_followed_to_the_inside__S1(world: World) -> None:
    for url in forbidden_urls(world.canary.port)[::20]:
        with pytest.raises(ForagerError) as caught:
            await world.visit(world.site.url(f"/go?{quote(url)}"), wait=False)
        assert isinstance(caught.value, Permanent), url  # refused, or no URL to Chromium
    assert world.canary.heard == 0
    answer = await world.visit(world.site.url(f"/go?{world.canary.url()}"), world.canary.endpoint, wait=False)
    assert b"internal" in answer.body  # negative control


async def test_a_name_that_leads_inside_is_not_followed__S3(world: World) -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async def gone(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    names = [
        f"http://{host}:{world.canary.port}/"
        for host in ("rebind.test", "localhost", "a.localhost", "127.0.0.1.nip.test")
    ]
    for resolver in (inside, gone):
        for way, worker in (("fetch", False), ("image", False), ("socket", False), ("fetch", True)):
            world.plan = [{"way": way, "urls": names, "worker": worker}]
            await world.visit(world.site.url("/page"), resolver=resolver)
        for url in names:
            with pytest.raises(ForagerError):
                await world.visit(url, resolver=resolver, wait=False)
    assert world.canary.heard == 0


async def test_webrtc_sends_nothing_past_the_gate__S1(world: World) -> None:
    await world.visit(world.site.url("/webrtc"))
    assert world.canary.heard == 0


async def test_the_canary_hears_webrtc_that_is_not_told_to_keep_quiet__S1() -> None:
    """Negative control: the last of two switches counts."""
    free = ("--force-webrtc-ip-handling-policy=default", "--webrtc-ip-handling-policy=default")
    async with AsyncExitStack() as stack:
        world = World(stack, require_chromium(), *free)
        await world.start()
        await world.visit(world.site.url("/webrtc"))
        assert world.canary.datagrams


@pytest.mark.parametrize("scheme", ["file", "data", "ftp", "view-source", "chrome"])
async def test_other_schemes_are_refused_and_their_content_never_seen__S4(
    world: World, scheme: str, tmp_path: Path
) -> None:
    secret = tmp_path / "canary.txt"
    secret.write_text("canary-4711")
    url = "data:text/plain,canary-4711" if scheme == "data" else f"{scheme}://{secret}"
    for target in (url, world.site.url(f"/go?{url}")):
        with pytest.raises(ForagerError) as caught:
            await world.visit(target, wait=False)
        assert "canary-4711" not in str(caught.value)
    world.plan = [{"way": "frame", "urls": [f"{scheme}://{secret}"], "worker": False}]
    if scheme != "data":
        assert b"canary-4711" not in (await world.visit(world.site.url("/page"))).body
