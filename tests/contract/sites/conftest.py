"""A linked site and an app for every test, over SQLite and over PostgreSQL."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.linked import Linked, open_linked

OpenLinked = Callable[..., Awaitable[Linked]]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


@pytest.fixture
async def linked(tmp_path: Path, database_url: str | None) -> AsyncIterator[OpenLinked]:
    """`await linked(pages=40)`: a site with these settings, over both stores."""
    async with AsyncExitStack() as stack:

        async def opened(**config: Any) -> Linked:
            return await stack.enter_async_context(open_linked(tmp_path / "home", database_url, **config))

        yield opened


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Linked]:
    """A small site without traps, on SQLite."""
    async with open_linked(tmp_path / "home", pages=12, traps=False) as site:
        yield site
