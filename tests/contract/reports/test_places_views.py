"""The views with the seed's names, on both stores: its columns, its words, and figures that add up at every moment."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from forager.core.ids import claim_text
from tests.support.places_rig import PlacesRig, found

JOB_COLUMNS = [
    "job_id", "keyword", "state", "pages", "batch_size", "dry_run", "concurrency", "status", "created_at", "started_at",
    "finished_at", "totals",
]  # fmt: skip
QUERY_COLUMNS = [
    "job_id", "zip", "page", "q", "status", "claim_id", "claimed_at", "api_status", "results_count", "credits", "error",
    "ran_at",
]  # fmt: skip
PLACE_COLUMNS = [
    "ingest_id", "job_id", "source", "source_version", "ingest_ts", "keyword", "state", "zip", "page", "place_uid",
    "payload", "api_status", "api_ms", "results_count", "credits", "error",
]  # fmt: skip


@pytest.fixture
async def job(rig: PlacesRig) -> UUID:
    """One ZIP ended early on page 2, one failed on page 1, one is in flight."""
    job = await rig.submit(zips=("85001", "85003", "85004"), pages=3, batch_size=50)
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 10))
    await rig.refuse(leases["85003/1"])
    (second,) = (await rig.lease()).values()
    await rig.answer(second, found(9, 4), ms=77)
    return job


async def queries(rig: PlacesRig, job: UUID) -> dict[tuple[str, int], dict[str, Any]]:
    rows = await rig.read("SELECT * FROM serper_queries WHERE job_id = :job", job=str(job))
    return {(row["zip"], row["page"]): row for row in rows}


async def the_job(rig: PlacesRig, job: UUID) -> dict[str, Any]:
    (row,) = await rig.read("SELECT * FROM serper_jobs WHERE job_id = :job", job=str(job))
    totals = row["totals"]
    return {**row, "totals": orjson.loads(totals) if isinstance(totals, str) else totals}


def moment(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


async def test_a_query_speaks_the_seeds_words__PL_14(rig: PlacesRig, job: UUID) -> None:
    rows = await queries(rig, job)
    assert list(rows["85001", 1]) == QUERY_COLUMNS
    states = {key: (row["status"], row["error"]) for key, row in rows.items()}
    assert states.pop(("85003", 1)) == ("failed", "Serper refused the query (400: bad query).")
    assert states == {
        ("85001", 1): ("success", None),
        ("85001", 2): ("success", None),
        ("85001", 3): ("skipped", "early_exit_page2_lt10"),
        ("85003", 2): ("skipped", "after_failed"),
        ("85003", 3): ("skipped", "after_failed"),
        ("85004", 1): ("processing", None),
        ("85004", 2): ("queued", None),
        ("85004", 3): ("queued", None),
    }
    assert rows["85001", 2]["q"] == "85001 bars"
    assert [(r["api_status"], r["results_count"], r["credits"]) for r in (rows["85001", 2], rows["85003", 1])] == [
        (200, 4, 1),
        (400, None, 0),
    ]


async def test_ran_at_is_set_when_a_query_has_ended__PL_10(rig: PlacesRig, job: UUID) -> None:
    for row in (await queries(rig, job)).values():
        assert (row["ran_at"] is not None) == (row["status"] not in ("queued", "processing")), row


async def test_a_claim_is_shown_as_the_seed_writes_it__PL_6(rig: PlacesRig, job: UUID) -> None:
    rows = await queries(rig, job)
    for key in (("85001", 1), ("85004", 1)):
        claim_id, claimed_at = rows[key]["claim_id"], moment(rows[key]["claimed_at"])
        assert re.fullmatch(r"claim-\d+-[0-9a-f]{9}", claim_id)
        ms, number = round(claimed_at.timestamp() * 1000), int(claim_id.rsplit("-", 1)[1], 16)
        assert claim_id == claim_text(ms, number)
        assert abs((datetime.now(UTC) - claimed_at).total_seconds()) < 60
    assert rows["85004", 2]["claim_id"] is None
    assert rows["85001", 1]["claim_id"] != rows["85001", 2]["claim_id"]


async def test_a_jobs_totals_add_up_while_it_runs__PL_14(rig: PlacesRig, job: UUID) -> None:
    row = await the_job(rig, job)
    assert list(row) == JOB_COLUMNS
    assert list(row["totals"]) == ["zips", "queries", "successes", "failures", "places", "credits", "skipped"]
    assert row["totals"] == {
        "zips": 3, "queries": 9, "successes": 2, "failures": 1, "places": 12, "credits": 2, "skipped": 3,
    }  # fmt: skip
    assert (row["keyword"], row["state"], row["pages"], row["batch_size"], row["concurrency"], row["status"]) == (
        "bars", None, 3, 50, None, "running",
    )  # fmt: skip
    assert not row["dry_run"]
    assert moment(row["created_at"]) <= moment(row["started_at"])
    assert row["finished_at"] is None


async def test_the_views_count_the_same_as_the_job__PL_14(rig: PlacesRig, job: UUID) -> None:
    totals = (await the_job(rig, job))["totals"]
    rows = (await queries(rig, job)).values()
    (places,) = await rig.read("SELECT count(*) AS n FROM serper_places WHERE job_id = :job", job=str(job))
    assert totals["queries"] == len(rows)
    assert totals["zips"] == len({row["zip"] for row in rows})
    assert totals["successes"] == sum(row["status"] == "success" for row in rows)
    assert totals["failures"] == sum(row["status"] == "failed" for row in rows)
    assert totals["skipped"] == sum(row["status"] == "skipped" for row in rows)
    assert totals["credits"] == sum(row["credits"] for row in rows)
    assert totals["places"] == places["n"]


async def test_cancelled_queries_are_skipped_and_the_job_failed__PL_14(rig: PlacesRig, job: UUID) -> None:
    await rig.ledger.cancel(job)
    rows = await queries(rig, job)
    assert (rows["85004", 2]["status"], rows["85004", 2]["error"]) == ("skipped", "cancelled")
    assert rows["85004", 1]["status"] == "processing"
    row = await the_job(rig, job)
    assert row["status"] == "failed"
    assert row["totals"]["skipped"] == 5


async def test_a_job_in_which_no_query_succeeded_has_failed__PL_14(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001", "85003"), pages=3)
    for lease in (await rig.lease()).values():
        await rig.refuse(lease)
    row = await the_job(rig, job)
    assert row["status"] == "failed"
    assert (row["totals"]["successes"], row["totals"]["failures"], row["totals"]["skipped"]) == (0, 2, 4)


async def test_a_paused_job_runs_and_an_ended_one_is_done__PL_14(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001", "85003"), pages=1)
    assert (await the_job(rig, job))["status"] == "running"
    await rig.ledger.pause(job, "a look")
    assert (await the_job(rig, job))["status"] == "running"
    await rig.ledger.resume(job)
    leases = await rig.lease()
    await rig.refuse(leases["85001/1"])
    await rig.answer(leases["85003/1"], [])
    row = await the_job(rig, job)
    assert row["status"] == "done"
    assert row["finished_at"] is not None
    assert (await queries(rig, job))["85003", 1]["results_count"] == 0


async def test_a_job_of_which_nothing_succeeded_failed__PL_14(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001",), pages=1)
    await rig.refuse((await rig.lease())["85001/1"])
    assert (await the_job(rig, job))["status"] == "failed"


async def test_a_dry_run_is_done_and_has_no_queries__PL_5(rig: PlacesRig) -> None:
    job = await rig.submit(zips=("85001", "85003"), dry_run=True)
    row = await the_job(rig, job)
    assert (row["status"], bool(row["dry_run"])) == ("done", True)
    assert (row["totals"]["zips"], row["totals"]["queries"]) == (2, 0)
    assert await queries(rig, job) == {}


async def test_a_sighting_is_the_seeds_row__PL_13(rig: PlacesRig, job: UUID) -> None:
    rows = await rig.read("SELECT * FROM serper_places WHERE job_id = :job ORDER BY place_uid", job=str(job))
    assert len(rows) == 12
    assert list(rows[0]) == PLACE_COLUMNS
    first, last = rows[0], rows[-1]
    assert (first["place_uid"], first["zip"], first["page"], first["keyword"], first["state"]) == (
        "ChIJ000001", "85001", 1, "bars", "AZ",
    )  # fmt: skip
    assert (first["source"], first["source_version"]) == ("serper_places", "v1")
    assert (last["page"], last["api_status"], last["api_ms"], last["results_count"], last["error"]) == (
        2, 200, 77, 4, None,
    )  # fmt: skip
    payload = orjson.loads(first["payload"]) if isinstance(first["payload"], str) else first["payload"]
    assert payload == found(1, 1)[0]
    assert abs((datetime.now(UTC) - moment(first["ingest_ts"])).total_seconds()) < 60


async def test_an_ingest_id_is_a_uuid_that_stays__PL_13(rig: PlacesRig, job: UUID) -> None:
    sql = "SELECT place_uid, ingest_id FROM serper_places"
    before = {row["place_uid"]: row["ingest_id"] for row in await rig.read(sql)}
    assert len(set(before.values())) == 12
    assert {UUID(value).version for value in before.values()} == {8}
    await rig.submit("pubs", zips=("85001",), pages=1)
    await rig.run(lambda key: found(1, 10))
    after = [(row["place_uid"], row["ingest_id"]) for row in await rig.read(sql)]
    assert len(set(after)) == len(after) == len(before) + 10
    assert set(before.items()) <= set(after)
