"""`forager restore --from bigquery`: jobs and queue from the mirror, on both stores, worked by hand."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.core.errors import Conflict, NotFound
from forager.core.record import Record
from forager.core.states import TaskState
from forager.pipelines.places.mirror import mirror
from forager.pipelines.places.records import Place, Sighting
from forager.sinks.bigquery.restore import BigQueryMirror
from tests.support.bigquery_emulator import rows_of
from tests.support.bigquery_mirror import deliver, log_of, mirrored, sink_of, views, warehouse_of
from tests.support.places_rig import PlacesRig, found, postgres_places, sqlite_places

KINDS: Mapping[str, type[Record]] = {Place.kind: Place, Sighting.kind: Sighting}
ZIPS = ("85001", "85003", "85004", "85006", "85007")


def source(folder: Path) -> BigQueryMirror:
    return BigQueryMirror(warehouse_of(folder), {"places": mirror}, KINDS)


async def open_rig(store: str, folder: Path, request: pytest.FixtureRequest) -> PlacesRig:
    folder.mkdir(exist_ok=True)
    if store == "sqlite":
        return await sqlite_places(folder, mirrored=True)
    return await postgres_places(request.getfixturevalue("unmade_postgres_url"), mirrored=True)


async def restore(rig: PlacesRig, folder: Path) -> list[UUID]:
    read = source(folder)
    jobs, last = await read.job_ids(), await read.last_numbers()
    return [job for job in jobs if await rig.ledger.restore(await read.job(job), last)]


def answers(key: str) -> list[dict[str, Any]]:
    zip_code, page = key.split("/")
    return found(int(zip_code) * 100 + int(page) * 10, 10 if (int(zip_code) + int(page)) % 3 else 4)


async def half_done(rig: PlacesRig) -> tuple[UUID, UUID, UUID]:
    """A finished job, one half way through with every kind of end, and one that is paused."""
    done = await rig.submit(keyword="pubs", zips=("85008",), pages=1)
    await rig.run(answers)
    half = await rig.submit(zips=ZIPS, pages=3, max_credits=100, concurrency=7)
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 10))
    await rig.refuse(leases["85003/1"])
    await rig.answer(leases["85004/1"], found(5, 3))
    await rig.answer((await rig.lease())["85001/2"], found(11, 10))
    paused = await rig.submit(keyword="cafés", zips=("85009",), pages=2)
    await rig.ledger.pause(paused, "by hand")
    return done, half, paused


@pytest.mark.parametrize(("lost", "new"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_a_lost_store_is_restored_and_runs_exactly_what_the_mirror_does_not_call_finished__PL_15(
    lost: str, new: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old = await open_rig(lost, tmp_path / "old", request)
    done, half, paused = await half_done(old)
    cursor = await deliver(old, sink_of(old, tmp_path))
    shown = mirrored(tmp_path)
    before = await views(old)
    await old.close()

    rig = await open_rig(new, tmp_path / "new", request)
    assert await restore(rig, tmp_path) == [done, half, paused]
    assert await restore(rig, tmp_path) == [], "an interrupted restore can be run again"
    after = await views(rig)
    sightings = [row for row in before["serper_places"] if row[1] != str(done)]
    assert after["serper_places"] == sightings, "with their ids; those of the finished job stay where they are"
    queued = {"processing": "queued"}
    assert [(r[:4], queued.get(r[4], r[4]), r[7:]) for r in after["serper_queries"]] == [
        (r[:4], queued.get(r[4], r[4]), r[7:]) for r in before["serper_queries"]
    ]
    assert [(r[:7], r[11]) for r in after["serper_jobs"]] == [(r[:7], r[11]) for r in before["serper_jobs"]]
    assert (await log_of(rig)) == [], "nothing has happened"

    finished = {(row[0], row[1], row[2]) for row in shown["serper_queries"] if row[4] not in ("queued", "processing")}
    await rig.ledger.resume(paused)
    sent: list[tuple[str, str, int]] = []
    while leases := await rig.leases():
        for lease in leases:
            (row,) = await rig.read("SELECT public_id FROM jobs WHERE id = :job", job=lease.job_id)
            zip_code, page = lease.key.split("/")
            sent.append((row["public_id"], zip_code, int(page)))
            await rig.answer(lease, answers(lease.key))
    assert len(set(sent)) == len(sent)
    assert not finished & set(sent)
    await deliver(rig, sink_of(rig, tmp_path))
    now, there = await views(rig), mirrored(tmp_path)
    assert there["serper_jobs"] == now["serper_jobs"]
    assert there["serper_queries"] == now["serper_queries"]
    assert [row for row in there["serper_places"] if row[1] != str(done)] == now["serper_places"]
    ingest = [row["ingest_id"] for row in rows_of(tmp_path, "SELECT ingest_id FROM `{dataset}.serper_places`")]
    assert len(set(ingest)) == len(ingest), "no number was used twice"
    assert (await log_of(rig))[0].id > cursor, "its changes are later than everything in the mirror"
    new_job = await rig.submit(zips=("85010",), pages=1)
    (row,) = await rig.read("SELECT count(*) AS jobs FROM jobs WHERE public_id = :job", job=str(new_job))
    assert row["jobs"] == 1
    await rig.close()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_what_the_lag_has_lost_runs_again_and_nothing_is_counted_twice__PL_15(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old = await sqlite_places(tmp_path, mirrored=True)
    job = await old.submit(zips=ZIPS, pages=3)
    sink = sink_of(old, tmp_path)
    cursor = await deliver(old, sink)
    leases = await old.leases()
    for lease in leases[:4]:
        await old.answer(lease, answers(lease.key))
    log = await log_of(old, cursor)
    told = [change.id for change in log if change.kind == "task"]
    await sink.write([change for change in log if change.id < told[-1]])  # cut within a settlement
    for lease in leases[4:]:
        await old.answer(lease, answers(lease.key))
    await old.run(answers)
    whole = await views(old)
    await old.close()

    rig = await open_rig(store, tmp_path / "new", request)
    assert await restore(rig, tmp_path) == [job]
    (state,) = await rig.read("SELECT state, queued FROM jobs")
    assert (state["state"], state["queued"] > 0) == ("running", True)
    await rig.run(answers)
    await deliver(rig, sink_of(rig, tmp_path))
    there = mirrored(tmp_path)
    assert [(r[:5], r[7:11]) for r in there["serper_queries"]] == [(r[:5], r[7:11]) for r in whole["serper_queries"]]
    assert [r[9] for r in there["serper_places"]] == [r[9] for r in whole["serper_places"]]
    assert [r[11] for r in there["serper_jobs"]] == [r[11] for r in whole["serper_jobs"]], "totals are right"
    assert there == await views(rig)
    await rig.close()


async def test_a_job_of_which_only_the_end_was_lost_ends_and_the_log_has_it(tmp_path: Path) -> None:
    old = await sqlite_places(tmp_path, mirrored=True)
    job = await old.submit(zips=("85001",), pages=1)
    sink = sink_of(old, tmp_path)
    await deliver(old, sink)
    (lease,) = (await old.lease()).values()
    await old.answer(lease, found(1, 3))
    read = source(tmp_path)
    assert await read.job_ids() == [job]
    shown = await read.job(job)
    ended = [replace(task, state=TaskState.COMPLETED, ended_at=1_800_000_000_000) for task in shown.tasks]
    rig = await open_rig("sqlite", tmp_path / "new", None)  # type: ignore[arg-type]
    assert await rig.ledger.restore(replace(shown, tasks=ended), await read.last_numbers())
    assert [(change.kind, change.op) for change in await log_of(rig)] == [("job", "ended")]
    await old.close()
    await rig.close()


async def test_a_number_of_another_job_is_a_conflict_and_a_missing_mirror_is_reported(tmp_path: Path) -> None:
    old = await sqlite_places(tmp_path, mirrored=True)
    await old.submit(zips=("85001",), pages=1)
    await deliver(old, sink_of(old, tmp_path))
    await old.close()
    rig = await open_rig("sqlite", tmp_path / "new", None)  # type: ignore[arg-type]
    await rig.submit(zips=("85001",), pages=1)
    with pytest.raises(Conflict, match="empty ledger"):
        await restore(rig, tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(NotFound, match="no mirror"):
        await source(tmp_path / "other").job_ids()
    await rig.close()
