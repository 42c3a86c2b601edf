"""A page in real Chromium that requests URLs in every way a page can, and a canary that records what got out."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from forager.core.clock import SystemClock
from forager.core.http import Request, Response, WaitFor
from forager.fetch.browser.chromium import ChromiumLauncher
from forager.fetch.browser.fetcher import BrowserFetcher
from forager.fetch.guard import EgressGuard, Resolver
from forager.fetch.http.connect import Dialer, open_socket
from tests.support.gate import WatchedGate
from tests.support.origin import Origin, Seen, reply
from tests.support.visits import allow_only

PATIENCE = 60.0
WORKER = b"onmessage = async e => { await all(e.data[0], e.data[1]); postMessage('done') };\n"
# Ways in which a page can request a URL. Each returns when the browser has finished, whatever the result.
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
# STUN over UDP and TCP, aimed at the canary: WebRTC bypasses every proxy unless that is forbidden.
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
    """Records every connection and every datagram at its port."""

    async def __aenter__(self) -> "Canary":
        await super().__aenter__()
        self.datagrams: list[bytes] = []
        canary = self

        class Ear(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, address: object) -> None:
                canary.datagrams.append(data)

        self._ear, _ = await asyncio.get_running_loop().create_datagram_endpoint(Ear, ("127.0.0.1", self.port))
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._ear.close()
        await super().__aexit__(*error)

    @property
    def heard(self) -> int:
        return self.connections + len(self.datagrams)


class World:
    """A site that may be visited, a canary that may not be reached, and a browser.

    `async with World(executable) as world, world.renewed():` Site and canary are new for each test. The browser of the
    usual set-up stays, because starting one takes as long as a test.
    """

    def __init__(self, executable: Path, *extra: str) -> None:
        self._launcher = ChromiumLauncher(executable, extra=extra)
        self._usual: tuple[WatchedGate, BrowserFetcher] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._usual is not None:
            await self._usual[1].close()
        await self._launcher.close()

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[Self]:
        self.plan: list[dict[str, object]] = []
        self.refusals = 0
        self._browsers: dict[object, tuple[WatchedGate, BrowserFetcher]] = {}
        async with AsyncExitStack() as self._stack:
            self.site = await self._stack.enter_async_context(Origin(self._answer))
            self.canary = await self._stack.enter_async_context(Canary(lambda _: reply(body=b"internal")))
            yield self

    async def visit(
        self,
        url: str,
        *allow: str,
        resolver: Resolver | None = None,
        dialer: Dialer = open_socket,
        guard: type[EgressGuard] = EgressGuard,
        wait: bool = True,
    ) -> Response:
        gate, fetcher = self._opened(allow, resolver, dialer, guard)
        script = (WaitFor("#done", timeout=PATIENCE, must=True),) if wait else ()
        gate.passages.clear()
        try:
            return await fetcher(Request(url, render="browser", script=script))
        finally:
            self.refusals = sum(passage.refusals for passage in gate.passages)

    def _opened(
        self, allow: tuple[str, ...], resolver: Resolver | None, dialer: Dialer, kind: type[EgressGuard]
    ) -> tuple[WatchedGate, BrowserFetcher]:
        """A browser for each set-up, kept for the next visit."""
        if (resolver, dialer, kind) == (None, open_socket, EgressGuard):
            return self._opened_usual(allow)
        if known := self._browsers.get((allow, resolver, dialer, kind)):
            return known
        guard = kind([self.site.endpoint, *allow], resolver=resolver)
        gate = WatchedGate(guard, dialer=dialer)
        fetcher = BrowserFetcher(guard, gate, SystemClock(), self._launcher)
        self._stack.push_async_callback(fetcher.close)
        self._browsers[allow, resolver, dialer, kind] = gate, fetcher
        return gate, fetcher

    def _opened_usual(self, allow: tuple[str, ...]) -> tuple[WatchedGate, BrowserFetcher]:
        if self._usual is None:
            guard = EgressGuard()
            gate = WatchedGate(guard)
            self._usual = gate, BrowserFetcher(guard, gate, SystemClock(), self._launcher)
        allow_only(self._usual[1], self.site.endpoint, *allow)
        return self._usual

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


GROUPS = {
    "by script": ["fetch", "post", "beacon", "request", "events"],
    "by element": ["image", "script", "style", "frame"],
    "by redirect": ["redirectedFetch", "redirectedImage", "redirectedFrame"],
    "by WebSocket": ["socket"],
    "by worker": ["fetch", "post", "request", "events", "redirectedFetch", "imported"],
    "by WebSocket of a worker": ["socket"],
}


SLOW = ("frame", "redirectedFrame", "imported")
AT_ONCE = 250
"""A page may have 255 WebSockets that are not yet connected; Chromium refuses more by itself, without a request."""


def planned(group: str, urls: Sequence[str]) -> list[dict[str, object]]:
    """The requests of a page, one part after the other: a tenth of the URLs for the ways that are slow."""
    return [
        {"way": way, "urls": part, "worker": "worker" in group}
        for way in GROUPS[group]
        for part in _parts(urls[::10] if way in SLOW else urls)
    ]


def _parts(urls: Sequence[str]) -> list[Sequence[str]]:
    return [urls[start : start + AT_ONCE] for start in range(0, len(urls), AT_ONCE)] or [urls]
