"""The scrape service over both stores (`service`), and over SQLite alone where the store makes no difference."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.scrape import Service, open_service


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """With its engine running."""
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_service(tmp_path, url) as opened, opened.app.engine():
        yield opened


@pytest.fixture
async def simple(tmp_path: Path) -> AsyncIterator[Service]:
    """With its engine running."""
    async with open_service(tmp_path) as opened, opened.app.engine():
        yield opened


@pytest.fixture
async def still(tmp_path: Path) -> AsyncIterator[Service]:
    """Nobody works in it."""
    async with open_service(tmp_path, max_queue_depth=10) as opened:
        yield opened
