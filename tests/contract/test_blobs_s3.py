"""Stored pages in S3: what one machine stores another reads, and each ledger keeps to its own."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.wiring import adopt_blobs
from forager.client.connect import AppEngine
from forager.core.errors import BlobMissing, Conflict, StoreError, StoreUnavailable
from forager.core.storage import FileInfo
from forager.settings import Settings
from forager.storage.pages.remote import PROBE, RemoteBlobs, path_of
from forager.storage.s3 import S3
from forager.storage.settings import S3Address
from tests.contract.test_blobs import page, referring_to
from tests.support.api import KEY, client_of
from tests.support.clock import FakeClock
from tests.support.lossy_s3 import LossyS3
from tests.support.s3 import address_of, place_of, s3_server, s3_settings, s3_values

HOUR = timedelta(hours=1)


async def _fits() -> None:
    pass


class Later(S3):
    """A storage whose own clock is later than the time when its pages were written."""

    def __init__(self, place: S3, later: timedelta) -> None:
        vars(self).update(vars(place))
        self._later_ms = round(later.total_seconds() * 1000)

    def find(self, path: str) -> FileInfo | None:
        found = super().find(path)
        return replace(found, modified_ms=found.modified_ms + self._later_ms) if found and path == PROBE else found


def blobs_of(
    folder: Path,
    *,
    later: timedelta = timedelta(0),
    wrong_by: timedelta = timedelta(0),
    place: S3 | None = None,
    **more: float,
) -> RemoteBlobs:
    """Return the store at a later time, on a machine whose own clock is wrong by `wrong_by`."""
    clock = FakeClock(datetime.now(UTC) + later + wrong_by)
    return RemoteBlobs(Later(place or place_of(folder), later), "s3", clock, _fits, **({"grace": 1} | more))


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[RemoteBlobs]:
    store = blobs_of(tmp_path)
    yield store
    await store.close()


async def test_what_one_machine_stores_another_reads_as_it_was__PR_14(blobs: RemoteBlobs, tmp_path: Path) -> None:
    kept = replace(page(1), body=b"<p>oak</p>" * 10_000)
    blob = await blobs.keep(kept)
    other = blobs_of(tmp_path)
    headers = {"Content-Type": "text/html; charset=utf-8", "ETag": '"x"'}
    assert await other.read(blob) == replace(kept, headers=headers, elapsed_ms=0, blob=blob)
    noise = os.urandom(50_000)
    assert (await other.read(await blobs.keep(page(2, body=noise)))).body == noise
    stat = await other.stat()
    assert (stat.pages, stat.size, stat.unused) == (2, None, 0)
    assert stat.stored < 60_000, "pages are compressed"
    await other.close()


async def test_a_lost_or_damaged_page_is_missing_and_stored_again_when_it_comes_again(
    blobs: RemoteBlobs, tmp_path: Path
) -> None:
    blob = await blobs.keep(page(1))
    place, path = place_of(tmp_path), path_of(bytes.fromhex(blob.partition(":")[2]))
    for content in (None, b"FGB1 torn"):
        if content is None:
            place.delete(path)
        else:
            place.put(path, content)
        with pytest.raises(BlobMissing):
            await blobs.read(blob)
        assert await blobs.keep(page(1)) == blob
        assert (await blobs.read(blob)).body == page(1).body
    for never in (f"blob:{'0' * 40}", "https://shop.example/", "blob:x"):
        with pytest.raises(BlobMissing):
            await blobs.read(never)


async def test_a_known_page_needs_no_request_and_an_old_one_is_written_again(tmp_path: Path) -> None:
    with LossyS3(s3_server().endpoint, lambda *_: "") as network:
        place = place_of(tmp_path, network.endpoint)
        first = blobs_of(tmp_path, place=place)
        await first.keep(page(1))
        asked = network.fired.total()
        await first.keep(page(1))
        assert network.fired.total() == asked
        again = blobs_of(tmp_path, place=place)
        await again.keep(page(1))
        assert network.fired.total() == asked + 3, "one look: it is there, and new enough by the server's clock"
        later = blobs_of(tmp_path, place=place, later=HOUR / 2)
        await later.keep(page(1))
        assert network.fired.total() == asked + 7, "one look, the clock, and it is written again"
        for each in (first, again, later):
            await each.close()


async def test_pages_that_nothing_refers_to_are_removed_after_the_grace(blobs: RemoteBlobs, tmp_path: Path) -> None:
    named, unnamed = await blobs.keep(page(1)), await blobs.keep(page(2))
    assert (await blobs.collect(referring_to(named))).pages == 0, "the commit that names it may be on its way"
    later = blobs_of(tmp_path, later=2 * HOUR)
    would = await later.collect(referring_to(named), dry_run=True)
    assert (would.pages, would.kept, would.dry_run) == (1, 1, True)
    done = await later.collect(referring_to(named))
    assert (done.pages, done.kept, done.segments, done.freed) == (1, 1, 1, would.freed)
    assert (await later.read(named)).body == page(1).body
    with pytest.raises(BlobMissing):
        await later.read(unnamed)
    aged = blobs_of(tmp_path, later=49 * HOUR, days=2)
    assert (await aged.collect(referring_to(named))).pages == 1, "FORAGER_BLOB_DAYS"
    for each in (later, aged):
        await each.close()


@pytest.mark.parametrize("days", [-1, 1])
async def test_the_clock_of_a_machine_that_is_a_day_wrong_decides_nothing__R11(tmp_path: Path, days: int) -> None:
    right, wrong = blobs_of(tmp_path), blobs_of(tmp_path, wrong_by=timedelta(days=days))
    named, unnamed = await right.keep(page(1)), await right.keep(page(2))
    assert (await wrong.collect(referring_to(named))).pages == 0, "both were stored a moment ago"
    assert (await right.read(unnamed)).body == page(2).body
    place_of(tmp_path).create("collecting", b"")
    with pytest.raises(Conflict):
        await wrong.collect(referring_to(named))
    place_of(tmp_path).delete("collecting")
    later = blobs_of(tmp_path, later=2 * HOUR, wrong_by=timedelta(days=days))
    assert (await later.collect(referring_to(named))).pages == 1, "two hours later it is removed"
    for each in (right, wrong, later):
        await each.close()


async def test_one_collection_at_a_time_and_the_lock_of_a_dead_one_does_not_last(tmp_path: Path) -> None:
    place_of(tmp_path).create("collecting", b"")
    now, later = blobs_of(tmp_path), blobs_of(tmp_path, later=2 * HOUR)
    with pytest.raises(Conflict):
        await now.collect(referring_to())
    await later.collect(referring_to())
    await now.collect(referring_to())
    for each in (now, later):
        await each.close()


async def test_a_server_that_is_away_makes_a_task_wait(tmp_path: Path) -> None:
    away = blobs_of(tmp_path, place=S3(S3Address("bucket"), s3_settings("http://127.0.0.1:1")))
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await away.keep(page(1))
    await away.close()


# ── applications ──


def settings_of(home: Path, address: S3Address, database_url: str | None) -> Settings:
    return new_settings(home=home, database_url=database_url, blobs=str(address), **s3_values())


async def _works(settings: Settings) -> None:
    async with open_app(settings, must_fit=True):
        pass


async def test_two_machines_download_and_parse_with_one_store_of_pages(tmp_path: Path, app_postgres_url: str) -> None:
    address = address_of(tmp_path)
    one, other = (settings_of(tmp_path / name, address, app_postgres_url) for name in "ab")
    async with open_app(one, must_fit=True) as downloads, open_app(other, must_fit=True) as parses:
        blob = await downloads.stored_pages.blobs.keep(page(1))
        assert (await parses.read_page(blob)).body == page(1).body
        assert (await parses.stored_pages.collect()).kept == 1
    assert not (tmp_path / "a" / "blobs").exists()
    with pytest.raises(StoreError, match="set FORAGER_BLOBS if the others do"):
        await _works(new_settings(home=tmp_path / "a", database_url=app_postgres_url))
    with pytest.raises(StoreError, match="forager blobs adopt"):
        await _works(settings_of(tmp_path / "a", address.below("elsewhere"), app_postgres_url))
    await _works(one)


async def test_a_place_belongs_to_one_ledger_until_another_adopts_it(tmp_path: Path) -> None:
    address = address_of(tmp_path)
    one, other = (settings_of(tmp_path / name, address, None) for name in "ab")
    async with open_app(one, must_fit=True) as app:
        await app.stored_pages.blobs.keep(page(1))
    with pytest.raises(StoreError, match="those of another ledger"):
        await _works(other)
    async with open_app(other) as app:  # a command that does not work is not refused …
        with pytest.raises(StoreError, match="those of another ledger"):
            await app.stored_pages.collect()  # … but removes nothing …
        with pytest.raises(StoreError, match="those of another ledger"):
            async with AppEngine(app).running():  # … and runs no engine that would store pages there
                pass
        async with client_of(create_api(app, key=KEY), key=KEY) as client:
            refused = await client.post("/api/v1/blobs/gc")
        assert refused.status_code == 503
        assert "forager blobs adopt" in refused.json()["error"], "the API returns the remedy as well"
        await _adopt(app)
        assert (await app.stored_pages.collect(dry_run=True)).kept == 1
    await _works(other)


async def _adopt(app: App) -> None:
    await adopt_blobs(app.settings, app.database)
