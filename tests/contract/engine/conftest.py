"""The real engine over both stores: `open_rig(pipelines, …)` opens one; the auditor has the last word on each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forager.core.pipeline import Pipeline
from tests.support.engine import EngineRig, open_postgres, open_sqlite

OpenRig = Callable[..., Awaitable[EngineRig]]


@pytest.fixture(params=["sqlite", "postgres"])
async def open_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenRig]:
    opened: list[EngineRig] = []
    if request.param == "postgres":
        url = request.getfixturevalue("unmade_postgres_url")

    async def open_(*pipelines: Pipeline | Sequence[Pipeline], **more: Any) -> EngineRig:
        if request.param == "sqlite":
            rig = await open_sqlite(tmp_path, pipelines, **more)  # type: ignore[arg-type]
        else:
            rig = await open_postgres(url, pipelines, **more)  # type: ignore[arg-type]
        opened.append(rig)
        return rig

    yield open_
    for rig in opened:
        rig.check()
        await rig.close()
