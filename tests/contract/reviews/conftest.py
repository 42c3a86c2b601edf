"""The reviews service over both stores (`service`), and over SQLite alone where the store makes no difference."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.reviews import Reviews, open_reviews


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reviews]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_reviews(tmp_path, url) as opened:
        yield opened


@pytest.fixture
async def simple(tmp_path: Path) -> AsyncIterator[Reviews]:
    async with open_reviews(tmp_path) as opened:
        yield opened
