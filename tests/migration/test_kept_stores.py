"""The stores that earlier releases left behind are upgraded, keep everything, and continue with their work (R18)."""

from pathlib import Path
from uuid import UUID

import pytest

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import locate
from forager.ledger.schema.migrate import check, upgrade
from tests.support.auditor import PostgresTables, SqliteTables, Tables, audit
from tests.support.engine import until
from tests.support.kept_store import DUMP, contents, releases, restore, unpack
from tests.support.kill_storm import Upstreams
from tests.support.postgres import find_programs

pytestmark = pytest.mark.timeout(300)


def test_a_store_of_a_release_is_kept() -> None:
    assert releases(), "make one: python -m tests.support.kept_store RELEASE"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("release", releases())
async def test_a_store_of_an_earlier_release_is_upgraded_and_its_waiting_job_ends__R18(
    release: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kept = unpack(release, kind, tmp_path)
    url = None
    if kind == "postgres":
        if not (find_programs() / "psql").exists():
            pytest.skip("psql is not installed beside the server")
        url = restore(request.getfixturevalue("postgres"), tmp_path / DUMP)
    async with Upstreams.running() as up:
        settings = up.settings(tmp_path, url)
        pipelines = build_pipelines(new_settings(**settings), all_features())
        records = [record for each in pipelines for record in each.records]
        catalog, store = Catalog(pipelines), locate(url, "forager") if url else tmp_path / "ledger.db"
        upgrade(store, catalog)
        check(store, catalog)
        tables: Tables = (
            PostgresTables(url, server_settings={"search_path": "forager"})
            if url
            else SqliteTables(tmp_path / "ledger.db")
        )
        found = contents(tables, records)
        assert {kind: found["records"].get(kind) for kind in kept["records"]} == kept["records"]
        assert (found["changes"], found["jobs"], found["completed"]) == (
            kept["changes"],
            kept["jobs"],
            kept["completed"],
        )
        assert audit(tables, records, may_rest=True) == []
        (waiting,) = tables.read("SELECT public_id AS id FROM jobs WHERE state = 'paused'")
        async with open_app(new_settings(**settings)) as app:
            await app.ledger.resume(UUID(waiting["id"]))
            async with app.engine(schedules=False):
                await until(
                    lambda: not tables.read("SELECT 1 FROM jobs WHERE pipeline = 'places' AND finished_at IS NULL")
                )
        assert audit(tables, records, may_rest=True) == []
        assert contents(tables, records)["jobs"]["places completed"] == kept["jobs"]["places completed"] + 1
        tables.close()
