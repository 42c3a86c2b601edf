"""The whole API over a real App, called in this process, with a sandbox for the upstream."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI
from pydantic import SecretStr

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from tests.support.schema_templates import prepare_store

KEY = "q7Zr2-Wm9xL4vTn8KcB5hYs3DgJ6fPa1"
PATIENCE = 60.0
ZIPS = "zip,state,city\n85001,AZ,Phoenix\n85002,AZ,Phoenix\n85003,AZ,Phoenix\n02139,MA,Cambridge\n"
"""A table of four, because reading the 42,000 that ship takes longer than a test."""
JOB: Mapping[str, Any] = {"keyword": "bars", "state": "AZ", "pages": 2}
ONE_QUERY: Mapping[str, Any] = {"keyword": "bars", "zips": ["85001"], "pages": 1}


@dataclass
class Front:
    app: App
    api: FastAPI
    client: httpx.AsyncClient
    sandbox: SerperSandbox

    async def create(self, **params: Any) -> str:
        made = await self.client.post("/api/v1/places/jobs", json=params or dict(ONE_QUERY))
        assert made.status_code == 202, made.text
        return str(made.json()["data"]["job_id"])

    async def data(self, path: str, **query: Any) -> Any:
        got = await self.client.get(path, params=query)
        assert got.status_code == 200, got.text
        return got.json()["data"]

    async def work(self) -> None:
        """Until nothing is left to do."""
        async with asyncio.timeout(PATIENCE):
            await self.app.worker.run(until_idle=True)


@asynccontextmanager
async def open_front(
    home: Path,
    database_url: str | None = None,
    *,
    table: str = ZIPS,
    allow: Sequence[str] = (),
    policies: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    **serper: Any,
) -> AsyncIterator[Front]:
    """An application with its API, without a port of its own, on a simulated Serper with these options."""
    zips = home / "zips.csv"
    zips.write_text(table)
    config = SerperConfig(**{"density": FULL_DENSITY, "rate_limit": None, **serper})
    async with SerperSandbox(config) as sandbox:
        chosen = new_settings(
            home=home,
            database_url=database_url,
            zip_table=zips,
            serper_api_key=SecretStr(config.key),
            serper_base_url=sandbox.url,
            egress_allow=(urlsplit(sandbox.url).netloc, *allow),
            domain_policies_path=policies,
            max_retries_per_query=0,
            **(settings or {}),
        )
        prepare_store(chosen)
        async with open_app(chosen) as app:
            api = create_api(app, key=KEY)
            async with client_of(api) as client:
                with _same_document(api):
                    yield Front(app, api, client, sandbox)


_documents: list[dict[str, Any]] = []


@contextmanager
def _same_document(api: FastAPI) -> Iterator[None]:
    """Every front has the same routes: the first test that needs their OpenAPI document makes it for all."""
    api.openapi_schema = _documents[0] if _documents else None
    yield
    if api.openapi_schema is not None and not _documents:
        _documents.append(api.openapi_schema)


def client_of(api: FastAPI, key: str | None = KEY) -> httpx.AsyncClient:
    headers = {} if key is None else {"X-Service-Key": key}
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://forager.test", headers=headers)
