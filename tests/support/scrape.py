"""The scrape service over a real App, called in this process, with a sandbox site for the web."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.sandbox.site import SandboxSite
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store

PATIENCE = 60.0
QUICK = """
domains:
  default:
    tokens_per_interval: 10000
    interval_seconds: 1
    min_delay_ms: 0
    max_delay_ms: 0
    respect_robots_txt: true
"""
"""Politeness is shown elsewhere: here it would only take time."""
API = "/api/v1/scrape"


@dataclass
class Service:
    app: App
    api: FastAPI
    client: httpx.AsyncClient
    site: SandboxSite

    def target(self, path: str = "/jobs/jsonld/1", **more: Any) -> dict[str, Any]:
        return {
            "target_type": "job_posting",
            "target_url": self.site.url(path),
            "workspace_id": "acme",
            "render": "http",
            **more,
        }

    async def ask(self, path: str = "/jobs/jsonld/1", **more: Any) -> str:
        made = await self.client.post(API, json=self.target(path, **more))
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["task_id"])

    async def batch(self, targets: Sequence[dict[str, Any]], **more: Any) -> str:
        made = await self.client.post(f"{API}/batch", json={"targets": targets, **more})
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])

    async def sync(self, path: str = "/jobs/jsonld/1", **more: Any) -> httpx.Response:
        return await self.client.post(f"{API}/sync", json=self.target(path, **more), timeout=PATIENCE)

    async def data(self, path: str) -> Any:
        got = await self.client.get(f"{API}{path}")
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def work(self) -> None:
        """Until nothing is left to do."""
        async with asyncio.timeout(PATIENCE):
            await self.app.worker.run(until_idle=True)

    async def ended(self, job: str) -> dict[str, Any]:
        """A job that the running engine works on, when it has ended."""
        async with asyncio.timeout(PATIENCE):
            while (seen := await self.data(f"/jobs/{job}"))["finished_at"] is None:
                await asyncio.sleep(0.01)
        return dict(seen)


@asynccontextmanager
async def open_service(
    home: Path,
    database_url: str | None = None,
    *,
    policies: str = QUICK,
    egress: Sequence[str] = (),
    **settings: Any,
) -> AsyncIterator[Service]:
    rules = home / "policies.yaml"
    rules.write_text(policies)
    async with SandboxSite() as site:
        chosen = new_settings(
            **{
                "home": home,
                "database_url": database_url,
                "egress_allow": (site.endpoint, *egress),
                "domain_policies_path": rules,
                **settings,
            }
        )
        prepare_store(chosen)
        async with open_app(chosen) as app:
            api = create_api(app, key=KEY)
            async with client_of(api) as client:
                yield Service(app, api, client, site)
