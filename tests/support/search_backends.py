"""The searches that pass one suite: in the store itself, and in a separate cluster."""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import elastic
from tests.support.deliveries import deliver_new
from tests.support.shop import Shop, open_shop


class InStore:
    """The store's own index. A search indexes what is missing by itself."""

    def settings(self) -> dict[str, Any]:
        return {}

    async def settle(self, shop: Shop) -> None:
        return None

    async def has(self, shop: Shop, word: str) -> bool:
        column, test = ("search_items", "MATCH") if shop.app.database.dialect == "sqlite" else ("document", "@@")
        asked = ":word" if test == "MATCH" else "to_tsquery('english', :word)"
        statement = f"SELECT 1 FROM search_items WHERE {column} {test} {asked}"
        return bool(await shop.app.database.fetch(statement, {"word": word}))

    async def empty(self, shop: Shop) -> None:
        await shop.app.database.write("DELETE FROM search_items")


@dataclass
class InCluster:
    """An index in Elasticsearch or OpenSearch, or in the stand-in for them."""

    url: str
    prefix: str = field(default_factory=lambda: f"t{os.urandom(5).hex()}-")

    @property
    def alias(self) -> str:
        return f"/{self.prefix}products"

    def settings(self) -> dict[str, Any]:
        return {"elasticsearch_url": self.url, "elasticsearch_prefix": self.prefix}

    async def settle(self, shop: Shop) -> None:
        """Deliver the log, and let the cluster show what it has taken."""
        assert await deliver_new(shop.app.ledger, shop.app.deliveries["elasticsearch"].sink, shop.app.clock)
        elastic.ask(self.url, "POST", f"{self.alias}/_refresh")

    async def has(self, shop: Shop, word: str) -> bool:
        asked = {"multi_match": {"query": word, "fields": ["product_name.words^1"]}}
        body = {"query": asked, "size": 1, "sort": [{"product_id": "desc"}]}
        found = elastic.ask(self.url, "POST", f"{self.alias}/_search", body)
        return bool(found and found["hits"]["hits"])

    async def empty(self, shop: Shop) -> None:
        rows = await shop.app.database.fetch("SELECT url_hash FROM items")
        version = '"version": 1000000000, "version_type": "external"'
        lines = "".join(f'{{"delete": {{"_id": "{row["url_hash"]}", {version}}}}}\n' for row in rows)
        elastic.ask(self.url, "POST", f"{self.alias}/_bulk?refresh=true", lines.encode())


@dataclass
class SearchShop(Shop):
    """A shop whose products are searched in one of these."""

    backend: InStore | InCluster

    async def crawl(self, **job: Any) -> dict[str, Any]:
        crawled = await super().crawl(**job)
        await self.backend.settle(self)
        return crawled

    async def found(self, q: str, **query: Any) -> Any:
        return await self.get("/products/search", q=q, **query)

    async def names(self, q: str, **query: Any) -> list[str]:
        return [hit["product"]["product_name"] for hit in (await self.found(q, **query))["hits"]]

    async def has(self, word: str) -> bool:
        """Return whether the index has this word; a search may index missing ones."""
        return await self.backend.has(self, word)

    async def empty(self) -> None:
        await self.backend.empty(self)

    async def rebuild(self) -> None:
        rebuilt = await self.client.post("/api/v1/products/search/rebuild")
        assert rebuilt.json()["data"] == {"left": 0}, rebuilt.text


OpenSearchShop = Callable[..., Awaitable[SearchShop]]


def shops(
    stack: AsyncExitStack, backend: InStore | InCluster, folder: Path, database_url: str | None = None
) -> OpenSearchShop:
    """Opens shops with these settings of the sandbox until the stack ends."""

    async def opened(**config: Any) -> SearchShop:
        chosen = {**backend.settings(), **config.pop("settings", {})}
        shop = await stack.enter_async_context(open_shop(folder / "home", database_url, settings=chosen, **config))
        return SearchShop(shop.app, shop.client, shop.site, backend)

    return opened
