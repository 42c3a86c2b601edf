"""The reviews service over a real App, called in this process, with a simulated Google Business Profile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.sandbox import GoogleConfig, GoogleSandbox, Tenant
from tests.support.api import KEY, client_of
from tests.support.schema_templates import prepare_store

API = "/api/v1/review-fetch"
TOKEN = "sandbox-acme"
PATIENCE = 60.0


@dataclass
class Reviews:
    app: App
    api: FastAPI
    client: httpx.AsyncClient
    google: GoogleSandbox

    async def fetch(self, token: str = TOKEN) -> str:
        made = await self.client.post(API, json={"access_token": token})
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])

    async def seen(self, job: str) -> dict[str, Any]:
        got = await self.client.get(f"{API}/{job}")
        assert got.status_code == 200, got.text
        return dict(got.json()["data"])

    async def work(self) -> None:
        """Until nothing is left to do."""
        async with asyncio.timeout(PATIENCE):
            await self.app.worker.run(until_idle=True)

    async def records(self, kind: str, job: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        cursor = None
        while True:
            query: dict[str, Any] = {"job": job, "limit": 1_000, **({"cursor": cursor} if cursor else {})}
            got = (await self.client.get(f"/api/v1/records/{kind}", params=query)).json()
            rows += got["data"]
            cursor = got["meta"]["next_cursor"]
            if cursor is None:
                return rows


@asynccontextmanager
async def open_reviews(
    home: Path, database_url: str | None = None, *, locations: int = 12, allow: Sequence[str] = (), **config: Any
) -> AsyncIterator[Reviews]:
    settings_of = {
        name: config.pop(name)
        for name in list(config)
        if name.startswith(("google_", "kafka_", "max_waiting", "ratelimit", "record", "otel_"))
    }
    made = GoogleConfig(**{"quota_per_minute": None, "default": Tenant(locations=locations), **config})
    async with GoogleSandbox(made) as google:
        hosts = {
            "google_accounts_url": google.accounts_url,
            "google_locations_url": google.locations_url,
            "google_reviews_url": google.reviews_url,
            "google_oauth_url": google.token_url.removesuffix("/token"),
            "google_consent_url": google.token_url.removesuffix("/token") + "/o/oauth2/v2/auth",
        }
        chosen = {**hosts, "google_requests_per_second": 1_000.0, **settings_of}
        settings = new_settings(
            home=home,
            database_url=database_url,
            egress_allow=(*(urlsplit(url).netloc for url in hosts.values()), *allow),
            **chosen,
        )
        prepare_store(settings)
        async with open_app(settings) as app:
            api = create_api(app, key=KEY)
            async with client_of(api) as client:
                yield Reviews(app, api, client, google)
