"""A client of the simulated Apify, and the clock that its tests move."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from forager.sandbox import API_ACTOR, ApifyConfig, ApifySandbox

TERMINAL = ("SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED")
BOSTON = {"search": "Boston, MA"}


class Client:
    def __init__(self, apify: ApifySandbox, session: aiohttp.ClientSession, clock: "Clock") -> None:
        self.apify, self.session, self.clock = apify, session, clock
        self.headers = {"Authorization": "Bearer sandbox-acme"}

    async def ask(self, verb: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any, dict[str, str]]:
        async with self.session.request(verb, path, json=body, params=query, headers=self.headers) as got:
            read = await got.read()
            return got.status, json.loads(read) if read and "json" in got.content_type else read, dict(got.headers)

    async def start(self, body: Any = BOSTON, actor: str = API_ACTOR, **query: Any) -> dict[str, Any]:
        status, said, _ = await self.ask("POST", f"/v2/acts/{actor}/runs", body, **query)
        assert status == 201, said
        return dict(said["data"])

    async def run(self, run_id: str, **query: Any) -> dict[str, Any]:
        status, said, _ = await self.ask("GET", f"/v2/actor-runs/{run_id}", **query)
        assert status == 200, said
        return dict(said["data"])

    async def items(self, dataset: str, **query: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
        status, said, headers = await self.ask("GET", f"/v2/datasets/{dataset}/items", **query)
        assert status == 200, said
        names = ("Offset", "Limit", "Count", "Total")
        return said, {name: int(headers[f"X-Apify-Pagination-{name}"]) for name in names}

    async def ended(self, body: Any = BOSTON, **query: Any) -> dict[str, Any]:
        started = await self.start(body, **query)
        self.clock.forward(1000)
        return await self.run(started["id"])


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 2, 6, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@asynccontextmanager
async def apify_with(**knobs: Any) -> AsyncIterator[Client]:
    clock = Clock()
    async with (
        ApifySandbox(ApifyConfig(**knobs), now=clock.now) as apify,
        aiohttp.ClientSession(apify.url) as session,
    ):
        yield Client(apify, session, clock)
