"""A worker of an earlier release goes on while its store is upgraded, works beside one of this version, and hands over
(R18). Its code and its store are those that the release has kept."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

import forager
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import locate
from forager.ledger.schema.migrate import check, upgrade
from forager.sandbox.audit import audit as audit_requests
from tests.support.auditor import PostgresTables, audit
from tests.support.engine import until
from tests.support.kept_store import DUMP, releases, restore, unpack, unpack_code
from tests.support.kill_storm import Upstreams
from tests.support.postgres import Postgres, find_programs

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

PRESENT = Path(forager.__file__).parent
KEY = "long"
SOME = 20
PATIENCE = 120.0
WORKER = """
import asyncio, json, signal, sys
from pathlib import Path
import forager
from forager.app.compose import open_app
from forager.app.config import new_settings

async def main():
    given = json.loads(sys.argv[1])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with open_app(new_settings(**given["settings"])) as app:
        for pipeline, params, key in given["jobs"]:
            await app.submit(pipeline, params, key=key)
        async with app.engine(schedules=False):
            Path(given["mark"]).write_text(forager.__file__)
            await stop.wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("release", releases())
async def test_a_worker_of_an_earlier_release_works_beside_one_of_this_version__R18(
    release: str, tmp_path: Path, postgres: Postgres
) -> None:
    if not (find_programs() / "psql").exists():
        pytest.skip("psql is not installed beside the server")
    home = tmp_path / "home"
    home.mkdir()
    kept = unpack(release, "postgres", home)
    earlier = unpack_code(release, PRESENT, tmp_path / "earlier" / "forager").parent
    url = restore(postgres, home / DUMP)
    async with Upstreams.running() as up:
        settings = up.settings(home, url)
        pipelines = build_pipelines(new_settings(**settings), all_features())
        records = [record for each in pipelines for record in each.records]
        catalog, store = Catalog(pipelines), locate(url, "forager")
        tables = PostgresTables(url, server_settings={"search_path": "forager"})

        def number(sql: str) -> int:
            (row,) = tables.read(sql)
            return int(row["n"])

        def done() -> int:
            return number(
                f"SELECT completed AS n FROM jobs j JOIN idempotency i ON i.job_id = j.id WHERE i.key = '{KEY}'"
            )

        jobs = [["places", {"keyword": "cafes", "state": "CA", "pages": 1, "concurrency": 1}, KEY]]
        jobs += [[each.pipeline, each.params, each.key] for each in map(_job(up), range(11, 14))]
        async with _worker(earlier, settings, jobs, tmp_path) as old:
            await until(lambda: done() >= SOME, PATIENCE)
            await asyncio.to_thread(upgrade, store, catalog)
            check(store, catalog)
            upgraded = done()
            await until(lambda: done() >= upgraded + SOME, PATIENCE)
            async with _worker(PRESENT.parent, settings, [], tmp_path):
                await until(lambda: number("SELECT count(*) AS n FROM sessions") == 2, PATIENCE)
                beside = done()
                await until(lambda: done() >= beside + SOME, PATIENCE)
                assert old.poll() is None, "the earlier worker is still at work"
                old.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(old.wait, PATIENCE) == 0, "it drained"
                handed = done()
                await until(lambda: done() >= handed + SOME, PATIENCE)
                async with open_app(new_settings(**settings)) as app:
                    (waiting,) = tables.read("SELECT public_id AS id FROM jobs WHERE state = 'paused'")
                    await app.ledger.resume(UUID(waiting["id"]))
                    (long,) = tables.read(
                        "SELECT public_id AS id FROM jobs j JOIN idempotency i ON i.job_id = j.id"
                        f" WHERE i.key = '{KEY}'"
                    )
                    await app.ledger.cancel(UUID(long["id"]))
                await until(
                    lambda: (
                        not number("SELECT count(*) AS n FROM jobs WHERE finished_at IS NULL AND pipeline <> 'webhook'")
                    ),
                    PATIENCE,
                )
        assert audit(tables, records, may_rest=True) == []
        assert audit_requests(up.serper.log).repeats == 0, "no query was sent twice"
        assert number("SELECT count(*) AS n FROM tasks WHERE state = 5") == kept.get("failed", 0)
        counts = {kind: number(f"SELECT count(*) AS n FROM {_table(records, kind)}") for kind in kept["records"]}
        tables.close()
    assert {kind: n for kind, n in counts.items() if n < kept["records"][kind]} == {}, "no record is gone"


def _job(up: Upstreams) -> Any:
    return lambda number: up.job(number, poison=False)


def _table(records: list[Any], kind: str) -> str:
    return next(str(record.table) for record in records if record.kind == kind)


@asynccontextmanager
async def _worker(
    source: Path, settings: Mapping[str, Any], jobs: list[Any], folder: Path
) -> AsyncIterator[subprocess.Popen[bytes]]:
    plain = {name: _plain(value) for name, value in settings.items()}
    mark = folder / f"{source.name}.works"
    command = [sys.executable, "-c", WORKER, json.dumps({"settings": plain, "jobs": jobs, "mark": str(mark)})]
    with (folder / f"{source.name}.log").open("wb") as log:
        worker = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(source)}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        await until(lambda: mark.exists() or worker.poll() is not None, PATIENCE)
        assert worker.poll() is None, (folder / f"{source.name}.log").read_text()[-3_000:]
        assert Path(mark.read_text()).is_relative_to(source), "it runs the code that it was given"
        yield worker
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait, PATIENCE)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value) if isinstance(value, Path) else value
