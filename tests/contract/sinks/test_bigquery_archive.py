"""Records that moved to the archive keep their rows in BigQuery, whatever is replayed."""

from pathlib import Path
from typing import Any

import pytest

from forager.core.ledger import Extras
from forager.core.outcome import Gone
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.core.upkeep import NewFile
from forager.ledger.catalog import Catalog
from forager.ledger.tables.pages import ArchiveTable
from forager.sinks.bigquery.ledger_rows import LedgerRows
from forager.sinks.bigquery.sink import BigQuerySink
from tests.support.bigquery_emulator import rows_of
from tests.support.bigquery_mirror import ROW, warehouse_of
from tests.support.engine import EngineRig
from tests.support.rig_pipelines import Call, Thing
from tests.support.sink_suite import PIPELINES, log_of, open_store, settle


async def _find(engine: EngineRig, *things: Thing, gone: str | None = None) -> None:
    await engine.submit([Plan(Call(name="only"))], "rig")
    extras = Extras(gone=[Gone(Thing(uid=gone), "closed")]) if gone else None
    await settle(engine.ledger, TaskState.COMPLETED, records=things, extras=extras)


async def _archive(engine: EngineRig, *keys: str) -> None:
    archives = ArchiveTable(engine.ledger.database, Catalog(PIPELINES), engine.ledger.now_ms)
    file = await archives.begin(NewFile("thing", "here", "thing/x", len(keys), 1, "d"))
    old = await archives.read("thing", await engine.ledger.now_ms() + 1_000, 0, 100)
    assert {record.key for record in old} == set(keys), "all but the newest"
    assert await engine.ledger.archive(file, "thing", old)


async def _replay(engine: EngineRig, folder: Path) -> dict[str, Any]:
    """Deliver the log from its beginning, as a process that has just started. Returns the rows of BigQuery by key."""
    await BigQuerySink(ROW, warehouse_of(folder), LedgerRows(engine.ledger.database, {}, (Thing,))).write(
        await log_of(engine.ledger)
    )
    return {row["uid"]: row for row in rows_of(folder, f"SELECT * FROM `{{dataset}}.{Thing.table}`")}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_replay_leaves_the_rows_of_archived_records_as_they_were__PR_14(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    engine = await open_store(str(tmp_path) if store == "sqlite" else request.getfixturevalue("unmade_postgres_url"))
    await _find(engine, *(Thing(uid=uid, size=1) for uid in ("closed", "unread", "open", "weak", "zz")))
    await _find(engine, gone="closed")
    before = await _replay(engine, tmp_path)
    assert before["closed"]["gone_at"] is not None
    await _find(engine, gone="unread")  # while there was no sink, which would have held the archive back
    await _archive(engine, "closed", "unread", "open", "weak")
    assert await _replay(engine, tmp_path) == before
    await _find(engine, Thing(uid="weak", size=3))
    await _find(engine, Thing(uid="strong", weak="weak"))
    after = await _replay(engine, tmp_path)
    await engine.close()
    assert after.keys() == before.keys() - {"weak"} | {"strong"}, "one that came back and was renamed has one row"
    assert all(after[key] == before[key] for key in before.keys() - {"weak"})
