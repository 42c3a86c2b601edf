"""An app, its API, and a linked site in the sandbox that it crawls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.sandbox.linked import LinkedConfig, LinkedSandbox
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store
from tests.support.shop import no_pauses

PATIENCE = 90.0


@dataclass
class Linked:
    app: App
    client: httpx.AsyncClient
    site: LinkedSandbox

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.site.port}"

    async def crawl(self, path: str = "/", **job: Any) -> dict[str, Any]:
        """Crawl the site, work until nothing is left to do, and return the job."""
        made = await self.post("/sites/crawls", {"url": self.site.url(path), **job})
        assert made.status_code == 202, made.text
        async with asyncio.timeout(PATIENCE):
            await self.app.worker.run(until_idle=True)
        return dict(await self.get(f"/jobs/{made.json()['data']['job_id']}"))

    async def post(self, path: str, body: Any) -> httpx.Response:
        return await self.client.post(f"/api/v1{path}", json=body)

    async def get(self, path: str, **query: Any) -> Any:
        got = await self.client.get(f"/api/v1{path}", params=query)
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def pages(self, **query: Any) -> dict[str, dict[str, Any]]:
        """Return the stored pages by path."""
        listed = await self.get(f"/sites/{self.name}/pages", limit=1000, **query)
        return {page["url"].removeprefix(self.site.url("")): page for page in listed}

    async def row(self) -> dict[str, Any]:
        """Return the newest crawl."""
        return dict((await self.get("/sites"))[0])

    def asked(self) -> list[str]:
        """Return the paths that were requested of the site, in their order, without robots.txt."""
        return [str(call.subject) for call in self.site.log.since(0) if call.subject != "/robots.txt"]


@asynccontextmanager
async def open_linked(home: Path, database_url: str | None = None, **config: Any) -> AsyncIterator[Linked]:
    """Open an app on its own store, and a linked site with these settings."""
    home.mkdir(exist_ok=True)
    async with LinkedSandbox(LinkedConfig(**{"pages": 40, "section_size": 20, "words": 60, **config})) as site:
        address = f"127.0.0.1:{site.port}"
        rules = home / "policies.yaml"
        rules.write_text(no_pauses(address))
        chosen = new_settings(home=home, database_url=database_url, egress_allow=(address,), domain_policies_path=rules)
        prepare_store(chosen)
        async with open_app(chosen) as app, client_of(create_api(app, key=KEY)) as client:
            yield Linked(app, client, site)
