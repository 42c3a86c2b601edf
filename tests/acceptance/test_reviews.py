"""A reviews job whose worker is killed with -9 again and again: no review is lost, none is twice, counts are exact."""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.app.compose import open_app
from forager.core.secret import Secret
from forager.core.states import TaskState
from forager.pipelines.reviews import reports
from forager.pipelines.reviews.wiring import submit_token
from forager.sandbox import Band, GoogleConfig, GoogleSandbox, Tenant
from tests.support.auditor import PostgresTables, SqliteTables, Tables
from tests.support.chaos import Dice, gone
from tests.support.reviews_process import Options, start

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

FEW = (Band(0.5, 0, 5), Band(0.4, 6, 40), Band(0.1, 60, 120))
RUNNING = int(TaskState.RUNNING)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


def config(locations: int) -> GoogleConfig:
    tenant = Tenant(accounts=4, locations=locations, reviews=FEW)
    return GoogleConfig(quota_per_minute=None, default=tenant, latency_ms=25, latency_sigma=0.4)


def read(options: Options, sql: str) -> list[Mapping[str, Any]]:
    url = options.database_url
    tables: Tables = PostgresTables(url) if url else SqliteTables(Path(options.home) / "ledger.db")
    try:
        return list(tables.read(sql))
    finally:
        tables.close()


def in_flight(options: Options) -> int:
    """Return the pages that the dead worker held: only these may be requested again."""
    table = "queue" if options.database_url else "tasks"
    return int(read(options, f"SELECT count(*) AS n FROM {table} WHERE state = {RUNNING}")[0]["n"])


async def kill_loop(options: Options, google: GoogleSandbox, kills: int, pages: int) -> tuple[int, int]:
    """Kill the worker `kills` times, each time after some pages. Returns the kills that hit work, and the pages it
    held."""
    dice, hits, held = Dice(), 0, 0
    step = pages * 7 // 10 // kills
    for _ in range(kills):
        before, wanted = google.log.total, dice.between(max(2, step // 3), step)
        process = start(options)
        async with asyncio.timeout(60):
            while google.log.total - before < wanted:
                assert process.exitcode is None, "the work ended too early"
                await asyncio.sleep(0.002)
        await asyncio.sleep(dice.seconds(0.03))
        process.kill()
        await gone(process, 60)
        now = in_flight(options)
        hits, held = hits + (now > 0), held + now
    assert await gone(start(options), 300) == 0
    return hits, held


async def judge(options: Options, google: GoogleSandbox, job: UUID) -> tuple[list[str], list[str], Mapping[str, Any]]:
    """(wanted, stored, how the job ended)"""
    async with open_app(options.settings()) as app:
        seen = await app.reports.job(job)
        counts = await reports.counts(app.database, job)
        stored = await app.database.fetch("SELECT review_key, times_seen FROM reviews")
        changes = await app.database.fetch("SELECT key FROM changes WHERE kind = 'review'")
        secrets = await app.database.fetch("SELECT job_id FROM job_secrets")
    names = [row["review_key"] for row in stored]
    assert sorted(names) == sorted(row["key"] for row in changes), "each is in the log once, and so in every sink"
    assert counts["reviews"] == len(names)
    assert secrets == [], "the token is gone with the job"
    expected = google.world("acme").expected(50, google.config.missing_share)
    wanted = [f"{each.account}_{each.location}_{each.review}" for each in expected]
    return wanted, names, {"state": seen.state, "failed": seen.failed, "total": seen.total, "done": seen.completed}


async def run(tmp_path: Path, database_url: str | None, *, locations: int, kills: int) -> None:
    async with GoogleSandbox(config(locations)) as google:
        options = Options(str(tmp_path), database_url, (google.accounts_url, google.locations_url, google.reviews_url))
        async with open_app(options.settings()) as app:
            made = await submit_token(app, Secret("sandbox-acme"))
        hits, held = await kill_loop(options, google, kills, pages=locations)
        wanted, stored, ended = await judge(options, google, made.job)
        calls = Counter((call.operation, call.subject, call.page) for call in google.log.calls())
        again = calls.total() - len(calls)
        sys.stdout.write(
            f"{kills} kills, {hits} hit work in flight; {len(stored)} reviews, {again} pages requested again\n"
        )
        assert hits >= kills * 2 // 3
        assert sorted(stored) == sorted(wanted)
        assert ended["state"] == "completed"
        assert (ended["failed"], ended["done"]) == (0, ended["total"])
        assert ended["total"] == len(calls)
        assert again <= held, "more was requested again than was in flight"


async def test_a_job_survives_kills_and_no_review_is_lost_or_doubled__RV_7(
    tmp_path: Path, database_url: str | None
) -> None:
    await run(tmp_path, database_url, locations=150, kills=5)


@pytest.mark.chaos
async def test_a_job_of_two_thousand_locations_survives_twenty_kills__RV_7(
    tmp_path: Path, database_url: str | None
) -> None:
    await run(tmp_path, database_url, locations=2_000, kills=20)
