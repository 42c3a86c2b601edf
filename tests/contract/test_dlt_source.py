"""Forager as a source of the real dlt, into DuckDB: new, changed and gone records, run by run."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import dlt
import pytest

from forager.core.errors import Rejected
from forager.dlt import forager_source
from tests.support.api import open_front


def run(home: Path, body: Any) -> Any:
    async def work() -> Any:
        async with open_front(home) as front:
            return await body(front)

    return asyncio.run(work())


async def _first(front: Any) -> int:
    await front.create(keyword="bars", zips=["85001"], pages=1)
    await front.work()
    return len(await front.data("/api/v1/records/place", limit=1_000))


def test_each_run_loads_what_is_new_merges_and_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    home = tmp_path / "home"
    home.mkdir()
    places = run(home, _first)
    assert places
    target = dlt.destinations.duckdb(str(tmp_path / "out.duckdb"))
    pipeline = dlt.pipeline("places", destination=target, dataset_name="loaded", pipelines_dir=str(tmp_path / "dlt"))

    def load() -> list[tuple[Any, ...]]:
        pipeline.run(forager_source("place", "sighting", settings={"home": home}))
        with pipeline.sql_client() as db:
            rows = db.execute_sql("SELECT record_key, change_id, title FROM place ORDER BY change_id")
            return [tuple(row) for row in rows or ()]

    first = load()
    assert len(first) == places
    assert load() == first, "a run without news changes nothing"

    async def change(front: Any) -> None:
        last = first[-1][1]
        database = front.app.database
        for number, (key, op, body) in enumerate(
            [
                (first[0][0], "changed", '{"place_uid": "x", "title": "An older name"}'),
                (first[0][0], "changed", '{"place_uid": "x", "title": "Another name"}'),
                (first[1][0], "gone", '{"place_uid": "y", "gone": {"reason": "closed"}}'),
            ],
            last + 1_000,
        ):
            sql = "INSERT INTO changes (id, kind, key, op, version, at, body) VALUES (:n, 'place', :k, :o, :n, 0, :b)"
            await database.write(sql, {"n": number, "k": key, "o": op, "b": body})
        await database.write("UPDATE tail SET change = :n", {"n": last + 1_002})

    run(home, change)
    after = {row[0]: row[2] for row in load()}
    assert len(after) == places - 1
    assert after[first[0][0]] == "Another name"
    assert first[1][0] not in after


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    run(tmp_path, _first)
    with pytest.raises(Rejected, match=r"unknown record kind 'pets'; choose from .*place"):
        forager_source("pets", settings={"home": tmp_path})


def test_forager_itself_never_imports_dlt() -> None:
    code = "import sys, forager.app.application, forager.cli.main; sys.exit('dlt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
