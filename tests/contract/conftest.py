"""One ledger contract, two stores: every test that asks for `rig` runs over SQLite and over PostgreSQL."""

import importlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.core.ledger import Ledger
from tests.support.rig import Rig, Worker, create_store, postgres_rig, sqlite_rig


def _require_postgres_ledger() -> None:
    """While the PostgreSQL ledger cannot be imported its half is skipped, with the reason; in CI that is a failure."""
    try:
        importlib.import_module("forager.ledger.postgres")
    except ImportError as missing:
        reason = f"forager.ledger.postgres does not import: {missing}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(params=["sqlite", "postgres"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A fresh ledger with the rig's pipeline; the auditor has the last word on it."""
    if request.param == "sqlite":
        create_store(tmp_path / "ledger.db")
        made = await sqlite_rig(tmp_path / "ledger.db")
    else:
        _require_postgres_ledger()
        made = await postgres_rig(request.getfixturevalue("postgres_url"))
    yield made
    made.check()
    await made.ledger.close()
    made.tables.close()


@pytest.fixture
def ledger(rig: Rig) -> Ledger:
    return rig.ledger


@pytest.fixture
async def worker(rig: Rig) -> Worker:
    return await rig.worker()
