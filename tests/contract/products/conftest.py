"""A shop and an app for every test, over SQLite and over PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import Postgres
from tests.support.shop import OpenShop, Shop, open_shop


@pytest.fixture(params=["sqlite", "postgres"])
async def database_url(request: pytest.FixtureRequest) -> AsyncIterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    postgres: Postgres = request.getfixturevalue("postgres")
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def shop_of(tmp_path: Path, database_url: str | None) -> AsyncIterator[OpenShop]:
    """`await shop_of(pages=10, layout="microdata")`: a shop with these settings."""
    async with AsyncExitStack() as stack:

        async def opened(**config: Any) -> Shop:
            return await stack.enter_async_context(open_shop(tmp_path / "home", database_url, **config))

        yield opened
