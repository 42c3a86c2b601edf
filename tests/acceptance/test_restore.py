"""A places job is killed half way and its store is deleted: `forager restore` rebuilds it from BigQuery; it ends."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.sandbox import SerperConfig, SerperSandbox
from forager.sandbox.audit import audit
from forager.sandbox.faults import Fault, Rule
from tests.support.bigquery_emulator import PROJECT, dataset_of, name_emulator, rows_of, url_of
from tests.support.restore_process import SINK

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

ZIPS = tuple(f"{85001 + n}" for n in range(30))
ENDED = ("success", "failed", "skipped")
Page = tuple[str, int]


async def test_a_job_continues_from_the_mirror_when_its_store_is_lost__PL_15(tmp_path: Path) -> None:
    name_emulator(tmp_path)
    unanswered = tuple(Rule(Fault.TIMEOUT, zip=zip_code) for zip_code in ZIPS[-5:])  # until the kill
    async with SerperSandbox(SerperConfig(rate_limit=None, script=unanswered)) as sandbox:
        environment = _environment(sandbox, tmp_path)
        job = await _killed_half_way(environment, tmp_path)
        finished = {(row["zip"], row["page"]) for row in _queries(tmp_path, job) if row["status"] in ENDED}
        sent_before = _sent(sandbox)
        assert finished, "some of it had arrived in the mirror"
        assert sent_before - finished, "and some had not"
        shutil.rmtree(tmp_path / "home")

        restored = await asyncio.to_thread(_restore, environment)
        assert "1 job restored, 1 of them unfinished" in restored
        answered = len(sandbox.log)
        async with open_app(load_settings(env=environment, cwd=tmp_path)) as app, app.engine():
            await app.roster.add(SINK)
            await _mirrored(app, tmp_path, job)
            sent_after = _sent(sandbox, answered)
            assert not sent_after & finished, "what the mirror called finished is not sent again"
            assert not audit(list(sandbox.log)[answered:]).wasted, "and no page after a short one"
            other = (await app.submit("places", {"keyword": "bars", "zips": list(ZIPS), "pages": 3})).job
            await _mirrored(app, tmp_path, other)
    for table, columns in (
        ("serper_queries", "zip, page, q, status, api_status, results_count, credits, error"),
        ("serper_places", "zip, page, place_uid, keyword, results_count"),
        ("serper_jobs", "keyword, pages, status"),
    ):
        sql = f"SELECT {columns} FROM `{{dataset}}.{table}` WHERE job_id = '%s' ORDER BY {columns}"
        assert _places(rows_of(tmp_path, sql % job)) == _places(rows_of(tmp_path, sql % other)), (
            "as if nothing had happened"
        )
    totals = {
        row["job_id"]: row["totals"] for row in rows_of(tmp_path, "SELECT job_id, totals FROM `{dataset}.serper_jobs`")
    }
    assert totals[str(job)] == totals[str(other)]


async def _killed_half_way(environment: dict[str, str], folder: Path) -> UUID:
    command = [sys.executable, "-m", "tests.support.restore_process", ",".join(ZIPS)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        job = UUID((await asyncio.to_thread(process.stdout.readline)).strip())
        while not await asyncio.to_thread(_is_under_way, folder, job):
            assert process.poll() is None, (folder / "log").read_text()[-2_000:]
            await asyncio.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    return job


def _is_under_way(folder: Path, job: UUID) -> bool:
    """Return whether the mirror has the job, which comes last, and some of its queries have ended."""
    ended = [row for row in _queries(folder, job) if row["status"] == "success"]
    jobs = rows_of(folder, "SELECT job_id FROM `{dataset}.serper_jobs`") if len(ended) >= 8 else []
    return jobs == [{"job_id": str(job)}]


def _queries(folder: Path, job: UUID) -> list[dict[str, Any]]:
    from google.api_core.exceptions import Forbidden, NotFound

    try:
        return rows_of(folder, f"SELECT zip, page, status FROM `{{dataset}}.serper_queries` WHERE job_id = '{job}'")
    except (Forbidden, NotFound):  # not yet
        return []


def _sent(sandbox: SerperSandbox, after: int = 0) -> set[Page]:
    return {(entry.zip, entry.page) for entry in list(sandbox.log)[after:] if entry.keyword == "bars"}


def _restore(environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "forager", "restore", "--from", "bigquery"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _mirrored(app: App, folder: Path, job: UUID) -> None:
    """Wait until a job has ended and the mirror shows it."""
    sql = f"SELECT status FROM `{{dataset}}.serper_jobs` WHERE job_id = '{job}'"
    while (await app.reports.job(job)).finished_at is None:
        await asyncio.sleep(0.05)
    while (await app.sinks.position(SINK.name)).cursor < (await app.sinks.position(SINK.name)).last:
        await asyncio.sleep(0.05)
    assert await asyncio.to_thread(rows_of, folder, sql) == [{"status": "done"}]


def _places(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A place that several ZIPs show belongs to the ZIP that was answered first, which depends on timing."""
    seen = {row["place_uid"] for row in rows if "place_uid" in row}
    return [{"place_uid": uid} for uid in sorted(seen)] if seen else list(rows)


def _environment(sandbox: SerperSandbox, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "FORAGER_HOME": str(folder / "home"),
        "FORAGER_EGRESS_ALLOW": urlsplit(sandbox.url).netloc,
        "SERPER_API_KEY": sandbox.config.key,
        "FORAGER_SERPER_BASE_URL": sandbox.url,
        "FORAGER_SERPER_TIMEOUT_SECONDS": "600",
        "FORAGER_BIGQUERY_URL": url_of(folder),
        "FORAGER_BIGQUERY_PROJECT_ID": PROJECT,
        "FORAGER_BIGQUERY_DATASET": dataset_of(folder),
    }
