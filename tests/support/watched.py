"""An app, its API, pages that a test edits, and a receiver of alerts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from aiohttp import web

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store
from tests.support.shop import no_pauses

PATIENCE = 60.0


@dataclass
class PagesAndHook:
    """Serves `pages` by path, and takes POSTs to `/hook` unless `refuses`."""

    pages: dict[str, str] = field(default_factory=dict)
    got: list[dict[str, Any]] = field(default_factory=list)
    refuses: int = 0
    """Answer this number of messages with 500."""
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def hook(self) -> str:
        return f"json://127.0.0.1:{self.port}/hook"

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            if self.refuses:
                self.refuses -= 1
                return web.Response(status=500, text="no")
            self.got.append(await request.json())
            return web.Response()
        if request.path not in self.pages:
            return web.Response(status=404)
        return web.Response(text=self.pages[request.path], content_type="text/html")


@asynccontextmanager
async def serving() -> AsyncIterator[PagesAndHook]:
    served = PagesAndHook()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.port = runner.addresses[0][1]
    try:
        yield served
    finally:
        await runner.cleanup()


@dataclass
class Watched:
    app: App
    client: httpx.AsyncClient
    site: PagesAndHook

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        return await self.client.post(f"/api/v1{path}", json=body or {})

    async def add(self, path: str, body: Any) -> dict[str, Any]:
        made = await self.post(path, body)
        assert made.status_code in (200, 201, 202), made.text
        return dict(made.json()["data"])

    async def get(self, path: str, **query: Any) -> Any:
        got = await self.client.get(f"/api/v1{path}", params=query)
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def wrong(self, path: str, body: Any) -> str:
        """Return the fields and messages with which a request is refused."""
        refused = await self.post(path, body)
        assert refused.status_code in (400, 409, 422), refused.text
        return refused.text

    async def settle(self, alerts: int | None = None, job: str | None = None) -> None:
        """Work and deliver until a job has ended, nothing is left to do, and this number of messages has come."""
        async with asyncio.timeout(PATIENCE), self.app.engine(schedules=False, service=False):
            while job is not None and (await self.get(f"/jobs/{job}"))["state"] not in ("completed", "failed"):
                await asyncio.sleep(0.02)
            while await self.app.left_over() is None or (alerts is not None and len(self.site.got) < alerts):
                await asyncio.sleep(0.02)

    async def check(self, watch: str, alerts: int | None = None) -> dict[str, Any]:
        """Check a watch now, deliver what follows, and return the watch."""
        made = await self.add(f"/watches/{watch}/check", {})
        await self.settle(alerts, job=made["job_id"])
        return dict(await self.get(f"/watches/{watch}"))


@asynccontextmanager
async def open_watched(home: Path, database_url: str | None = None, **settings: Any) -> AsyncIterator[Watched]:
    home.mkdir(exist_ok=True)
    async with serving() as site:
        address = f"127.0.0.1:{site.port}"
        rules = home / "policies.yaml"
        rules.write_text(no_pauses(address))
        paths = {"home": home, "database_url": database_url, "domain_policies_path": rules}
        chosen = new_settings(**paths, egress_allow=(address,), **settings)
        prepare_store(chosen)
        async with open_app(chosen) as app, client_of(create_api(app, key=KEY)) as client:
            yield Watched(app, client, site)
