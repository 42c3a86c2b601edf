"""A shop and an app for every test, over SQLite and over PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.shop import OpenShop, Shop, open_shop


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


@pytest.fixture
async def shop_of(tmp_path: Path, database_url: str | None) -> AsyncIterator[OpenShop]:
    """`await shop_of(pages=10, layout="microdata")`: a shop with these settings."""
    async with AsyncExitStack() as stack:

        async def opened(**config: Any) -> Shop:
            return await stack.enter_async_context(open_shop(tmp_path / "home", database_url, **config))

        yield opened
