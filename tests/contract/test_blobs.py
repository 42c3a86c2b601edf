"""Stored pages in a local folder: stored once, read back as they were, and never an error when they are lost."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forager.core.errors import BlobMissing, Conflict, StoreFull
from forager.core.http import Request, Response
from forager.core.storage import References, is_blob, read_or_fetch
from forager.storage.pages.folder import BlobFolder, IndexedPage, SegmentRow
from forager.storage.pages.local import LocalBlobs
from forager.storage.pages.segments import Segments
from tests.support.clock import FakeClock

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def page(number: int, *, size: int = 2_000, body: bytes | None = None) -> Response:
    return Response(
        url=f"https://shop.example/p/{number}?a=ü",
        status=200,
        headers={"Content-Type": "text/html; charset=utf-8", "Set-Cookie": "secret=1", "ETag": '"x"'},
        body=(f"<p>{number}</p>".encode() * size)[:size] if body is None else body,
        at=AT,
        elapsed_ms=12,
        looks="empty_shell",
        rendered=True,
    )


def referring_to(*blobs: str) -> References:
    async def pages() -> AsyncIterator[Sequence[str]]:
        for blob in blobs:
            yield [blob, "https://not.a.blob/"]

    return pages


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[LocalBlobs]:
    store = LocalBlobs(tmp_path / "blobs", FakeClock(AT), grace=1, segment_bytes=20_000)
    yield store
    await store.close()


async def test_a_page_is_read_back_as_it_was_without_its_cookies(blobs: LocalBlobs) -> None:
    kept = page(1)
    blob = await blobs.keep(kept)
    assert is_blob(blob)
    read = await blobs.read(blob)
    headers = {"Content-Type": "text/html; charset=utf-8", "ETag": '"x"'}
    assert read == replace(kept, headers=headers, elapsed_ms=0, blob=blob)


@pytest.mark.parametrize("body", [b"", b"x", os.urandom(100_000), b"\0" * 5_000_000], ids=["none", "1", "noise", "big"])
async def test_a_body_of_any_kind_is_kept(blobs: LocalBlobs, body: bytes) -> None:
    assert (await blobs.read(await blobs.keep(page(1, body=body)))).body == body


async def test_the_same_page_is_stored_once_and_any_difference_counts(blobs: LocalBlobs) -> None:
    first = await blobs.keep(page(1))
    assert await blobs.keep(replace(page(1), at=AT + timedelta(days=3), elapsed_ms=1)) == first
    others = [
        page(2),
        replace(page(1), status=404),
        replace(page(1), body=b"y"),
        replace(page(1), url="https://b.example/"),
    ]
    assert len({first, *[await blobs.keep(other) for other in others]}) == 5
    assert (await blobs.stat()).pages == 5


async def test_pages_survive_a_restart_and_full_segments(blobs: LocalBlobs, tmp_path: Path) -> None:
    noisy = [page(number, body=os.urandom(3_000)) for number in range(40)]
    stored = await asyncio.gather(*(blobs.keep(each) for each in noisy))
    assert (await blobs.stat()).segments > 3
    await blobs.close()
    again = LocalBlobs(tmp_path / "blobs", FakeClock(AT))
    assert [(await again.read(blob)).body for blob in stored] == [each.body for each in noisy]
    assert await again.keep(noisy[7]) == stored[7]
    assert (await again.stat()).pages == 40
    await again.close()


async def test_two_processes_share_a_folder(blobs: LocalBlobs, tmp_path: Path) -> None:
    """Pages that one process has just stored, not yet indexed, can be read by the other."""
    other = LocalBlobs(tmp_path / "blobs", FakeClock(AT), grace=1)
    mine, theirs = await blobs.keep(page(1)), await other.keep(page(2))
    assert (await blobs.read(theirs)).body == page(2).body
    assert (await other.read(mine)).body == page(1).body
    await other.close()
    assert (await blobs.read(theirs)).body == page(2).body
    assert (await blobs.stat()).pages == 2


# ── lost pages ──


async def test_a_page_that_was_never_stored_is_missing(blobs: LocalBlobs) -> None:
    for url in ("blob:" + "0" * 40, "blob:", "blob:../../etc/passwd", "blob:https://a.example/x", "https://a.example"):
        with pytest.raises(BlobMissing):
            await blobs.read(url)


@pytest.mark.parametrize("hurt", ["flip", "cut", "deleted"])
async def test_a_damaged_page_is_missing_and_stored_again_when_it_comes_again(
    blobs: LocalBlobs, tmp_path: Path, hurt: str
) -> None:
    blob = await blobs.keep(page(1))
    await blobs.close()
    [segment] = (tmp_path / "blobs").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[-10] ^= 1
    segment.write_bytes(data if hurt == "flip" else data[:-10])
    if hurt == "deleted":
        segment.unlink()
    store = LocalBlobs(tmp_path / "blobs", FakeClock(AT))
    with pytest.raises(BlobMissing, match="Fetch it again"):
        await store.read(blob)
    assert await store.keep(page(1)) == blob
    assert (await store.read(blob)).body == page(1).body
    await store.close()


async def test_a_damaged_index_is_made_again_from_the_segments(blobs: LocalBlobs, tmp_path: Path) -> None:
    stored = [await blobs.keep(page(number)) for number in range(30)]
    await blobs.close()
    (tmp_path / "blobs" / "index.db").write_bytes(b"no database at all" * 1_000)
    store = LocalBlobs(tmp_path / "blobs", FakeClock(AT))
    assert [(await store.read(blob)).url for blob in stored] == [page(number).url for number in range(30)]
    await store.close()


async def test_damage_in_the_middle_of_a_segment_loses_one_page_only(blobs: LocalBlobs, tmp_path: Path) -> None:
    stored = [await blobs.keep(page(number)) for number in range(5)]
    await blobs.close()
    [segment] = (tmp_path / "blobs").glob("*.seg")
    data = bytearray(segment.read_bytes())
    [*places] = (place for place, _ in Segments(tmp_path / "blobs").frames(1))
    data[places[2].offset : places[2].offset + 60] = b"\xff" * 60
    segment.write_bytes(data)
    (tmp_path / "blobs" / "index.db").unlink()
    store = LocalBlobs(tmp_path / "blobs", FakeClock(AT))
    for number, blob in enumerate(stored):
        if number == 2:
            with pytest.raises(BlobMissing):
                await store.read(blob)
        else:
            assert (await store.read(blob)).url == page(number).url
    await store.close()


async def test_a_lost_page_is_fetched_again_and_kept(blobs: LocalBlobs) -> None:
    asked: list[Request] = []

    async def fetch(request: Request) -> Response:
        asked.append(request)
        if request.url.startswith("blob:"):
            return await blobs.read(request.url)
        return replace(page(1), blob=await blobs.keep(page(1)))

    request = Request(page(1).url)
    first = await read_or_fetch(fetch, "blob:" + "0" * 40, request)
    assert [each.url[:5] for each in asked] == ["blob:", "https"]
    assert asked[1].keep
    assert (await read_or_fetch(fetch, first.blob, request)).body == first.body
    assert len(asked) == 3
    assert (await read_or_fetch(fetch, None, request)).blob == first.blob


async def test_a_full_disk_is_a_full_store_and_damages_nothing(
    blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await blobs.keep(page(1))
    write, cut = os.pwrite, 7

    def no_room(file: int, data: bytes, offset: int) -> int:
        if len(data) <= cut:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[:-cut], offset)

    monkeypatch.setattr(os, "pwrite", no_room)
    with pytest.raises(StoreFull, match="Free some space"):
        await blobs.keep(page(2))
    monkeypatch.undo()
    after = await blobs.keep(page(3))
    assert (await blobs.read(before)).url == page(1).url
    assert (await blobs.read(after)).url == page(3).url


# ── collection ──


async def test_pages_that_nothing_refers_to_are_removed_after_the_grace(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    store = LocalBlobs(tmp_path / "blobs", clock, grace=1, segment_bytes=20_000)
    noisy = [page(number, body=os.urandom(3_000)) for number in range(60)]
    stored = [await store.keep(each) for each in noisy]
    kept = stored[::10]
    assert (await store.collect(referring_to(*kept))).pages == 0
    clock.advance(3601)
    young = await store.keep(page(99))
    planned = await store.collect(referring_to(*kept), dry_run=True)
    assert (planned.pages, planned.kept, planned.dry_run) == (54, 7, True)
    assert (await store.stat()).pages == 61
    before = await store.stat()
    done = await store.collect(referring_to(*kept))
    after = await store.stat()
    assert (done.pages, done.kept) == (54, 7)
    assert done.segments > 5
    assert done.freed == before.stored + before.unused - after.stored - after.unused > 150_000
    assert after.pages == 7
    for blob in (*kept, young):
        assert (await store.read(blob)).blob == blob
    with pytest.raises(BlobMissing):
        await store.read(stored[1])
    await store.close()
    again = LocalBlobs(tmp_path / "blobs", clock, grace=1)
    assert [(await again.read(blob)).body for blob in kept] == [each.body for each in noisy[::10]]
    assert (await again.collect(referring_to(*kept))).pages == 0
    await again.close()


async def test_a_page_stored_again_survives_until_its_commit(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    store = LocalBlobs(tmp_path / "blobs", clock, grace=1)
    blob = await store.keep(page(1))
    clock.advance(3601)
    assert await store.keep(page(1)) == blob
    assert (await store.collect(referring_to())).pages == 0
    assert (await store.read(blob)).url == page(1).url
    await store.close()


async def test_old_pages_are_removed_although_something_refers_to_them_if_days_are_set(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    store = LocalBlobs(tmp_path / "blobs", clock, days=30)
    blob = await store.keep(page(1))
    clock.advance(29 * 86_400)
    assert (await store.collect(referring_to(blob))).pages == 0
    clock.advance(2 * 86_400)
    assert (await store.collect(referring_to(blob))).pages == 1
    await store.close()


async def test_two_collections_do_not_run_in_one_folder(blobs: LocalBlobs, tmp_path: Path) -> None:
    blob = await blobs.keep(page(1))
    other = LocalBlobs(tmp_path / "blobs", FakeClock(AT))

    async def meanwhile() -> AsyncIterator[Sequence[str]]:
        with pytest.raises(Conflict, match="Another process"):
            await other.collect(referring_to())
        yield [blob]

    assert (await blobs.collect(meanwhile)).kept == 1
    assert (await other.collect(referring_to(blob))).kept == 1
    await other.close()


async def test_pages_are_stored_and_read_while_a_collection_moves_them(tmp_path: Path) -> None:
    clock = FakeClock(AT)
    store = LocalBlobs(tmp_path / "blobs", clock, grace=1, segment_bytes=50_000)
    other = LocalBlobs(tmp_path / "blobs", clock, grace=1)
    stored = [await store.keep(page(number, body=os.urandom(1_000))) for number in range(400)]
    kept = stored[::4]
    await store.read(kept[0])
    for blob in kept[:20]:
        await other.read(blob)  # it holds files open that are about to be removed
    clock.advance(3601)
    collecting = asyncio.create_task(store.collect(referring_to(*kept)))
    number = 1_000
    while not collecting.done():
        fresh = await store.keep(page(number))
        assert (await other.read(fresh)).url == page(number).url
        assert (await other.read(kept[number % len(kept)])).blob == kept[number % len(kept)]
        number += 1
    assert (await collecting).pages == 300
    for blob in kept:
        assert (await store.read(blob)).blob == (await other.read(blob)).blob == blob
    await store.close()
    await other.close()


def test_a_page_is_found_that_another_process_indexes_during_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search looks at the index, then at the ends of segments; the page moves from these to that in between."""
    writer, reader = (BlobFolder(tmp_path / "blobs", lambda: 1) for _ in range(2))
    blob = writer.keep(page(1))
    look = reader.index.segments

    def after_the_other_has_sealed() -> dict[int, SegmentRow]:
        writer.close()
        return look()

    monkeypatch.setattr(reader.index, "segments", after_the_other_has_sealed)
    assert reader.read(bytes.fromhex(blob.partition(":")[2])).url == page(1).url
    reader.close()


def test_a_failed_read_does_not_remove_a_page_that_was_moved_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = BlobFolder(tmp_path / "blobs", lambda: 1)
    blob = folder.keep(page(1))
    digest = bytes.fromhex(blob.partition(":")[2])
    folder.flush()
    entry = folder.index.find(digest)
    assert entry is not None
    elsewhere = IndexedPage(digest, entry.at._replace(segment=entry.at.segment + 50), entry.size, entry.used_at)
    monkeypatch.setattr(folder.index, "find", lambda _: elsewhere)
    with pytest.raises(BlobMissing):
        folder.read(digest)
    monkeypatch.undo()
    assert folder.read(digest).url == page(1).url
    folder.close()


async def test_nothing_is_opened_where_nothing_was_stored(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path / "blobs", FakeClock(AT))
    assert (await store.stat()).pages == (await store.collect(referring_to())).pages == 0
    await store.close()
    assert not (tmp_path / "blobs").exists()
