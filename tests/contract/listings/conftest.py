"""Rentals for every test: over both stores in real time, or over SQLite in simulated time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.listings import Rentals, open_rentals
from tests.support.simulation import SimulatedClock

OpenRentals = Callable[..., Awaitable[Rentals]]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a fresh PostgreSQL database; None is SQLite."""
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


@pytest.fixture
async def rentals(tmp_path: Path, database_url: str | None) -> AsyncIterator[Rentals]:
    """In real time, over both stores; runs take a moment."""
    async with open_rentals(tmp_path / "home", database_url) as opened:
        yield opened


@pytest.fixture
async def simulated(tmp_path: Path) -> AsyncIterator[OpenRentals]:
    """`await simulated(homes=10)`: in simulated time, with these settings of the sandbox."""
    async with AsyncExitStack() as stack:

        async def opened(**config: Any) -> Rentals:
            made = open_rentals(tmp_path / "home", clock=SimulatedClock(), **config)
            return await stack.enter_async_context(made)

        yield opened
