"""A small web site on loopback for browser visits: every kind of page that a visit must cope with (`visited/`)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.origin import Answer, Origin, Seen, reply

FOLDER = Path(__file__).parent / "visited"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f00"
    "0384018060ff2f2c0000000049454e44ae426082"
)
OTHERS = {
    "/style.css": ("text/css", b"h1{color:red}"),
    "/picture.png": ("image/png", PNG),
    "/clip.mp4": ("video/mp4", b"\0" * 32),
    "/letters.woff2": ("font/woff2", b"\0" * 32),
    "/code.js": ("text/javascript", b"document.body.dataset.ran = 1"),
    "/cached.js": ("text/javascript", b"1"),
    "/sw.js": ("text/javascript", b"self.addEventListener('fetch', e => {})"),
}


class Site(Origin):
    """`async with Site() as site:`; `site.paths()` returns the requested paths."""

    def __init__(self) -> None:
        super().__init__(_answer)

    def paths(self) -> list[str]:
        return [seen.target for seen in self.seen if not seen.target.startswith("/favicon")]


def _answer(seen: Seen) -> Answer:
    path, _, query = seen.target.partition("?")
    page = FOLDER / f"{path.strip('/') or 'static'}.html"
    if page.is_file():
        return reply(200, page.read_bytes(), Content_Type="text/html; charset=utf-8", X_Seen="yes")
    if path in OTHERS:
        kind, body = OTHERS[path]
        return reply(200, body, Content_Type=kind, Cache_Control="max-age=3600")
    if path.startswith("/status/"):
        return reply(int(path.rpartition("/")[2]), query.encode(), Content_Type="text/html")
    return _odd(path, query)


def _odd(path: str, query: str) -> Answer:
    match path:
        case "/redirect":
            return reply(302, Location=query)
        case "/loop":
            return reply(302, Location=f"/loop?{query}x")
        case "/download":
            return reply(200, b"secret", Content_Type="text/csv", Content_Disposition="attachment; filename=a.csv")
        case "/hang":
            return _silence()
        case "/drop":
            return b""
        case _:
            return reply(404, b"no such page", Content_Type="text/html")


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""
