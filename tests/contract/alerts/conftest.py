"""An app with pages and a receiver of alerts, over SQLite and over PostgreSQL."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.watched import Watched, open_watched


@pytest.fixture(params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Watched]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_watched(tmp_path / "home", url) as opened:
        yield opened


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    """On SQLite."""
    async with open_watched(tmp_path / "home") as opened:
        yield opened
