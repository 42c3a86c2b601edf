"""A client of the simulated Google Business Profile that follows the API documentation."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from forager.sandbox import Band, GoogleConfig, GoogleSandbox, Tenant

MASK = "name,title,storefrontAddress,metadata.placeId"


class Client:
    """Sends requests as the API documentation shows them."""

    def __init__(self, google: GoogleSandbox, session: aiohttp.ClientSession, token: str = "sandbox-acme") -> None:
        self.google, self.session, self.token = google, session, token

    async def get(self, url: str, **params: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.session.get(url, params=params, headers=headers) as got:
            body = await got.read()
            return got.status, json.loads(body) if "json" in got.content_type else {}, dict(got.headers)

    async def pages(self, url: str, rows: str, **params: Any) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = []
        more: dict[str, str] = {}
        while True:
            status, said, _ = await self.get(url, **params, **more)
            assert status == 200, said
            found.append(said.get(rows, []))
            if "nextPageToken" not in said:
                return found
            more = {"pageToken": said["nextPageToken"]}

    async def accounts(self) -> list[dict[str, Any]]:
        pages = await self.pages(f"{self.google.accounts_url}/v1/accounts", "accounts")
        return [row for page in pages for row in page]

    async def locations(self, account: str, **params: Any) -> list[dict[str, Any]]:
        url = f"{self.google.locations_url}/v1/{account}/locations"
        pages = await self.pages(url, "locations", **{"readMask": MASK, "pageSize": 100, **params})
        return [row for page in pages for row in page]

    def reviews_url(self, account: str, location: str) -> str:
        return f"{self.google.reviews_url}/v4/{account}/{location}/reviews"

    async def reviews(self, account: str, location: str, **params: Any) -> list[dict[str, Any]]:
        pages = await self.pages(self.reviews_url(account, location), "reviews", **{"pageSize": 50, **params})
        return [row for page in pages for row in page]


@asynccontextmanager
async def google_with(now: Any = None, **knobs: Any) -> AsyncIterator[Client]:
    config = GoogleConfig(**{"quota_per_minute": None, **knobs})
    async with GoogleSandbox(config, now=now) as google, aiohttp.ClientSession() as session:
        yield Client(google, session)


def exact(reviews: int, **knobs: Any) -> Tenant:
    return Tenant(reviews=(Band(1.0, reviews, reviews),), **knobs)
