"""The products pipeline over a real App, called in this process, with a sandbox shop for the web."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.sandbox.shop import ShopConfig, ShopSandbox
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store

PATIENCE = 60.0
JOBS = "/api/v1/admin/crawl-jobs"


def no_pauses(address: str) -> str:
    """A policy file with a rule for the sandbox: politeness is shown elsewhere, here it would only take time."""
    return (
        f'domains:\n  "{address}":\n    tokens_per_interval: 100000\n    interval_seconds: 1\n'
        "    max_concurrent_requests: 32\n"
    )


@dataclass
class Shop:
    """An app, its API, and the shop that it crawls."""

    app: App
    client: httpx.AsyncClient
    site: ShopSandbox

    async def crawl(self, **job: Any) -> dict[str, Any]:
        """Submit a crawl, work until nothing is left to do, and return the job."""
        made = await self.submit(**job)
        await self.work()
        return dict(await self.get(f"/jobs/{made}"))

    async def submit(self, **job: Any) -> str:
        made = await self.client.post(JOBS, json=job)
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])

    async def get(self, path: str, **query: Any) -> Any:
        got = await self.client.get(f"/api/v1{path}", params=query)
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def product(self, number: int, host: str = "127.0.0.1") -> dict[str, Any]:
        """The stored product of the shop's product of this number."""
        (found,) = await self.get("/products", url=self.site.product_url(number, host), gone=True)
        return dict(found)

    async def work(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.app.worker.run(until_idle=True)

    async def ended(self, job: str) -> dict[str, Any]:
        """A job that the running engine works on, when it has ended."""
        async with asyncio.timeout(PATIENCE):
            while (seen := await self.get(f"/jobs/{job}"))["finished_at"] is None:
                await asyncio.sleep(0.02)
        return dict(seen)

    async def reached(self, look: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool]) -> Any:
        """Wait until `look` returns the expected value, and return it."""
        async with asyncio.timeout(PATIENCE):
            while not wanted(seen := await look()):
                await asyncio.sleep(0.05)
        return seen

    def asked(self, operation: str = "product") -> list[str]:
        """The subjects of the shop's requests of one operation, in their order."""
        return [str(call.subject) for call in self.site.log.since(0) if call.operation == operation]


OpenShop = Callable[..., Awaitable[Shop]]
"""Opens a shop with these settings of the sandbox."""


@asynccontextmanager
async def open_shop(
    home: Path, database_url: str | None = None, *, settings: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[Shop]:
    """An app on its own store, and a sandbox shop with these settings."""
    home.mkdir(exist_ok=True)
    async with ShopSandbox(ShopConfig(**config)) as site:
        address = f"127.0.0.1:{site.port}"
        rules = home / "policies.yaml"
        rules.write_text(no_pauses(address))
        chosen = new_settings(
            **{
                "home": home,
                "database_url": database_url,
                "egress_allow": (address,),
                "domain_policies_path": rules,
                "product_retry_delay_seconds": 0.05,
                **(settings or {}),
            }
        )
        prepare_store(chosen)
        async with open_app(chosen) as app, client_of(create_api(app, key=KEY)) as client:
            yield Shop(app, client, site)
