"""Public addresses pass the guard in real Chromium: fifty names and addresses, visited and requested by a page.

The guard and the browser see public addresses; the dialer leads them to a site on this machine.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.dialers import Detour
from tests.support.origin import Answer, Origin, Seen, reply
from tests.support.page_requests import World
from tests.support.ssrf import public_urls

WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PUBLIC = "93.184.215.14"
WAYS = [("fetch", False), ("image", False), ("socket", False), ("request", True), ("socket", True)]


async def public(host: str, port: int) -> Sequence[str]:
    return [PUBLIC]


@dataclass
class Internet:
    """Two sites that stand for all the others, the second with TLS."""

    world: World
    sites: tuple[Origin, Origin]
    detour: Detour

    def hosts(self) -> set[str]:
        return {seen.headers["host"] for site in self.sites for seen in site.seen}

    async def visit(self, url: str, *, wait: bool = True) -> bytes:
        return (await self.world.visit(url, resolver=public, dialer=self.detour, wait=wait)).body


async def welcome(key: str) -> AsyncIterator[bytes]:
    """A WebSocket is opened (RFC 6455) and closed."""
    accepted = base64.b64encode(hashlib.sha1(f"{key}{WEBSOCKET}".encode()).digest()).decode()
    yield reply(101, Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Accept=accepted) + b"\x88\x00"


@pytest.fixture
async def internet(chromium: Path) -> AsyncIterator[Internet]:
    def answer(seen: Seen) -> Answer:
        key = seen.headers.get("sec-websocket-key")
        return welcome(key) if key else reply(body=b"public", Content_Type="text/html")

    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(World(chromium, "--ignore-certificate-errors"))
        await stack.enter_async_context(world.renewed())
        plain, secure = [await stack.enter_async_context(Origin(answer, tls=tls)) for tls in (False, True)]
        detour = Detour({80: plain.port, 8080: plain.port, 443: secure.port, 8443: secure.port})
        yield Internet(world, (plain, secure), detour)


async def test_fifty_public_urls_are_visited__S1(internet: Internet) -> None:
    urls = public_urls()
    assert len(urls) >= 50
    for url in urls:
        before = len(internet.detour.dialled)
        assert b"public" in await internet.visit(url, wait=False), url
        assert internet.world.refusals == 0, url
        assert len(internet.detour.dialled) > before, url
    assert len(internet.hosts()) == len(urls)
    assert not any(address.startswith("127.") for address, _ in internet.detour.dialled)


@pytest.mark.parametrize(("way", "worker"), WAYS)
async def test_a_page_reaches_fifty_public_urls__S1(internet: Internet, way: str, worker: bool) -> None:
    urls = public_urls()
    # Ten at a time: Chromium lets many WebSockets wait for one another.
    internet.world.plan = [{"way": way, "urls": urls[n::5], "worker": worker} for n in range(5)]
    await internet.visit(internet.world.site.url("/page"))
    assert internet.world.refusals == 0
    assert len(internet.hosts()) == len(urls)
    assert {port for _, port in internet.detour.dialled} >= {80, 443, 8080, 8443}
