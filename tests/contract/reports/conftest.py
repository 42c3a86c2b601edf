"""Reports and views of a store of places, on both stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.sdk import queries
from tests.support.places_rig import PlacesRig, postgres_places, sqlite_places


@pytest.fixture(params=["sqlite", "postgres"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PlacesRig]:
    if request.param == "sqlite":
        rig = await sqlite_places(tmp_path)
    else:
        rig = await postgres_places(request.getfixturevalue("unmade_postgres_url"))
    yield rig
    await rig.close()


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few rows are looked at per page, so that a small table is as a big one."""
    monkeypatch.setattr(queries, "WINDOW", 4)
    return 4
