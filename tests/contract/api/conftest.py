"""The API over both stores (`front`), and over SQLite alone where the store makes no difference (`simple`)."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from forager.sandbox import Fault, Rule
from tests.support.api import Front, open_front

BAD_ZIP = "85003"
"""The sandbox answers nonsense here, once: the query becomes a dead letter."""
SCRIPT = (Rule(Fault.MALFORMED, zip=BAD_ZIP, page=1, times=1),)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    """The URL of a fresh PostgreSQL database; None is SQLite."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("app_postgres_url"))


@pytest.fixture
async def front(store: str | None, tmp_path: Path) -> AsyncIterator[Front]:
    async with open_front(tmp_path, store, script=SCRIPT) as opened:
        yield opened


@pytest.fixture
async def simple(tmp_path: Path) -> AsyncIterator[Front]:
    async with open_front(tmp_path, script=SCRIPT) as opened:
        yield opened


@pytest.fixture
def client(simple: Front) -> httpx.AsyncClient:
    return simple.client
