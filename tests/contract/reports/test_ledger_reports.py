"""The ledger as a whole: health, lanes, sessions; and no report ever scans a table."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from forager.core.database import Dialect, Row
from forager.core.errors import NotFound
from forager.ledger.reports import LedgerReports
from forager.pipelines.places.reports import PlaceFilter, density, find_places
from forager.sdk import queries
from tests.support.places_rig import PlacesRig, postgres_places, sqlite_places
from tests.support.reports import mixed_job


async def test_health_counts_what_is_open(rig: PlacesRig) -> None:
    await mixed_job(rig)
    await rig.ledger.pause(await rig.submit("later", pages=2))
    health = await rig.reports.health()
    assert health.open_jobs == {"running": 1, "paused": 1}
    assert (health.queued, health.running, health.dead_letters, health.sessions) == (4, 1, 1, 1)
    assert health.last_change == await rig.reports.last_change() > 3


async def test_lanes_and_sessions_are_listed(rig: PlacesRig) -> None:
    await mixed_job(rig)
    (lane,) = (await rig.reports.lanes()).items
    assert (lane.name, lane.owner, lane.paused) == ("serper", "by hand", False)
    await rig.ledger.pause_lane("serper", paused=True)
    assert (await rig.reports.lanes()).items[0].paused
    (session,) = await rig.reports.sessions()
    assert session.name == "by hand"
    assert session.lease_until > session.started_at
    (spent,) = await rig.reports.spending("serper")
    assert spent.spent == 1
    with pytest.raises(NotFound):
        await rig.reports.spending("nowhere")


class _Explaining:
    """A database that writes down how it would answer, beside answering."""

    def __init__(self, rig: PlacesRig, explain: str = "EXPLAIN QUERY PLAN") -> None:
        self._database = rig.ledger.database
        self.dialect: Dialect = self._database.dialect
        self._explain = explain
        self.plans: list[str] = []
        self.scans: list[str] = []
        """SQLite's plans."""

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        steps = await self._database.fetch(f"{self._explain} {sql}", values)
        details = [str(step.get("detail") or step.get("QUERY PLAN")) for step in steps]
        self.plans.append("\n".join([*details, sql]))
        walked = [d for d in details if re.search(r"SCAN (tasks|jobs|places|sightings|changes)\b(?!.*USING)", d)]
        # Along the primary key, and only so far, is no scan; to sort what was found, or without an end, is one.
        if walked and ("LIMIT" not in sql or any("TEMP B-TREE" in d for d in details)):
            self.scans.append(f"{details}: {sql}")
        return await self._database.fetch(sql, values)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        return await self._database.fetch_by_keys(sql, keys)

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        await self.fetch(sql, values)
        return await self._database.fetch_tuples(sql, values)

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        raise AssertionError("a report writes nothing")


async def test_no_report_scans_a_table(tmp_path: Path) -> None:
    rig = await sqlite_places(tmp_path)
    job = await mixed_job(rig)
    (letter,) = (await rig.reports.dead()).items
    explaining = _Explaining(rig)
    reports = LedgerReports(explaining, rig.catalog)
    for state in ("queued", "running", "paused"):
        await reports.jobs(state=state, pipeline="places")
    await reports.job(job)
    await reports.tasks(
        job,
        state="queued",
        cursor=queries.encode_cursor(f"tasks of {job}", ["kind", "key"], ["places.query", "85001/1"]),
    )
    await reports.task(letter.id)
    await reports.dead(job=job, pipeline="places", cursor=queries.encode_cursor("dead", ["ended_at", "id"], [2**50, 1]))
    await reports.dead_letter(letter.id)
    await find_places(explaining, PlaceFilter(job=job), cursor=queries.encode_cursor(f"places of {job}", ["id"], [1]))
    await find_places(explaining, PlaceFilter(category="Bar"), cursor=queries.encode_cursor("places", ["id"], [1]))
    await find_places(
        explaining,
        PlaceFilter(zip="85001"),
        cursor=queries.encode_cursor("places of ZIP 85001", ["place_uid"], ["ChIJ000001"]),
    )
    await reports.history(
        "place", "ChIJ000001", cursor=queries.encode_cursor("history of place ChIJ000001", ["version", "id"], [9, 9])
    )
    await reports.export_page("place", job=job)
    await reports.export_page("sighting", job=job)
    await density(explaining, keyword="bars", state="AZ")
    await reports.health()
    assert explaining.scans == []
    await rig.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_keyword_is_looked_for_among_sightings_that_an_index_finds(
    request: pytest.FixtureRequest, store: str, tmp_path: Path
) -> None:
    """PostgreSQL may scan a table that has three rows. With sequential scans disabled, it does so only where no index
    would serve."""
    if store == "postgres":
        url = request.getfixturevalue("postgres_url")
        admin = await asyncpg.connect(url)
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(f'ALTER DATABASE "{name}" SET enable_seqscan = off')
        await admin.close()
        rig, found_by_index = await postgres_places(url), r"Index Cond: \(\S*(place_uid|zip|job_id)\S* = "
    else:
        rig, found_by_index = await sqlite_places(tmp_path), r"SEARCH (s|sightings) USING .*INDEX"
    job = await rig.submit()
    explaining = _Explaining(rig, "EXPLAIN" if store == "postgres" else "EXPLAIN QUERY PLAN")
    for more in ({"state": "AZ"}, {"zip": "85001"}, {"category": "Bar"}, {"job": job}):
        explaining.plans.clear()
        await find_places(explaining, PlaceFilter(keyword="Bars", **more))
        (plan,) = (plan for plan in explaining.plans if "LIMIT :page" in plan)
        assert re.search(found_by_index, plan), plan
        assert not re.search(r"SCAN (s|sightings)$|Seq Scan on sightings", plan, re.MULTILINE), plan
    await rig.close()
