"""A real Chromium reaches only what the guard permits: by navigation, redirect, subresource, WebSocket, worker.

One page requests hundreds of forbidden URLs in one way; a canary listens where they would land, by TCP and UDP.
"""

import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio

from forager.core.errors import ForagerError, Permanent, Refused
from tests.support.dialers import Detour, NoGuard
from tests.support.page_requests import GROUPS, SLOW, World, planned
from tests.support.ssrf import forbidden_urls

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_world(chromium: Path) -> AsyncIterator[World]:
    async with World(chromium) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def world(one_world: World) -> AsyncIterator[World]:
    async with one_world.renewed():
        yield one_world


def part(group: str, port: int, parts: int = 3) -> list[str]:
    """Each group another part of the corpus, so that all are tried."""
    return forbidden_urls(port)[list(GROUPS).index(group) % parts :: parts]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("parts", [len(GROUPS), pytest.param(1, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("group", GROUPS)
async def test_no_page_reaches_a_forbidden_url__S1(world: World, group: str, parts: int) -> None:
    urls = part(group, world.canary.port, parts)
    assert len(urls) >= 1_200 // parts
    world.plan = planned(group, urls)
    await world.visit(world.site.url("/page"))
    assert world.canary.heard == 0
    # Chromium reads many spellings as one address, and requests equal ones once; the rest was refused.
    assert world.refusals >= 450 // parts * len([way for way in GROUPS[group] if way not in SLOW])


@pytest.mark.parametrize("group", GROUPS)
async def test_the_canary_detects_a_page_that_may_reach_it__S1(world: World, group: str) -> None:
    """Negative control: each way does leave the browser."""
    world.plan = [case | {"urls": [world.canary.url(f"/{case['way']}")]} for case in planned(group, [])]
    await world.visit(world.site.url("/page"), world.canary.endpoint)
    assert {seen.target for seen in world.canary.seen} == {f"/{way}" for way in GROUPS[group]}
    assert world.refusals == 0


async def test_the_canary_detects_the_corpus_without_a_guard__S1(world: World) -> None:
    """Negative control: as many land there as were refused above, whatever address they named."""
    urls = part("by script", world.canary.port)
    ways = [("fetch", False), ("socket", False), ("request", True)]
    world.plan = [{"way": way, "urls": urls, "worker": worker} for way, worker in ways]
    await world.visit(world.site.url("/page"), dialer=Detour(), guard=NoGuard)
    assert world.refusals == 0
    assert world.canary.connections >= 150 * len(ways)


async def test_no_forbidden_url_is_visited__S1(world: World) -> None:
    urls = forbidden_urls(world.canary.port)
    for url in urls:
        with pytest.raises(Refused):
            await world.visit(url, wait=False)
    assert world.canary.heard == 0


async def test_no_redirect_of_a_page_is_followed_to_the_inside__S1(world: World) -> None:
    for url in forbidden_urls(world.canary.port)[::40]:
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


async def test_the_canary_detects_webrtc_that_is_not_disabled__S1(chromium: Path) -> None:
    """Negative control: the last of two switches counts."""
    free = ("--force-webrtc-ip-handling-policy=default", "--webrtc-ip-handling-policy=default")
    async with World(chromium, *free) as world, world.renewed():
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
