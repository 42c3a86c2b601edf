"""A client of the simulated shop, the clock that its tests move, and what they read of a page."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from selectolax.lexbor import LexborHTMLParser

from forager.sandbox import ShopConfig, ShopSandbox

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 2, 6, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def forward(self, days: float) -> None:
        self.moment += timedelta(days=days)


class Client:
    def __init__(self, shop: ShopSandbox, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.shop, self.session, self.clock = shop, session, clock

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(path, headers=named, allow_redirects=False) as got:
            return got.status, await got.read(), got.headers

    async def page(self, number: int) -> LexborHTMLParser:
        status, body, _ = await self.get(self.shop.product_url(number))
        assert status == 200
        return LexborHTMLParser(body)


@asynccontextmanager
async def shop_with(**knobs: Any) -> AsyncIterator[Client]:
    clock = Clock()
    config = ShopConfig(**{"pages": 100, **knobs})
    async with (
        ShopSandbox(config, now=clock.now) as shop,
        aiohttp.ClientSession(shop.url("")) as session,
    ):
        yield Client(shop, session, clock)


def text(page: LexborHTMLParser, selector: str) -> str:
    found = page.css_first(selector)
    assert found is not None, selector
    return found.text(strip=True)


def attribute(page: LexborHTMLParser, selector: str, name: str) -> str:
    found = page.css_first(selector)
    assert found is not None, selector
    return found.attributes[name] or ""


def a_call() -> Any:
    from forager.sandbox import Call

    return Call(1, 0.0, 0.0, "", "GET", "/", "")
