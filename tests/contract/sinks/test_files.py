"""The files sink: what is in the folder after writes, crashes, and two writers at once."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.change import Change
from forager.core.errors import Permanent, Transient
from forager.core.sink import SinkRow
from forager.sinks.files import manifest as files_manifest
from forager.sinks.files.manifest import Csv, Manifest, all_manifests, json_lines, last_manifest
from forager.sinks.files.sink import FilesSink
from forager.storage.folder import Folder
from tests.support.engine import until

DAY = round(datetime(2026, 3, 14, 23, 59, tzinfo=UTC).timestamp() * 1000)
JOB = UUID("0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11")


def change(number: int, kind: str = "thing", *, minutes: int = 0, body: Any = None) -> Change:
    at = DAY + minutes * 60_000
    return Change(number, kind, f"k{number}", "new", 1, JOB, "rig", at, body or {"uid": f"k{number}"})


def sink_in(folder: Path, **more: Any) -> FilesSink:
    return FilesSink(SinkRow("files", "files"), Folder(folder), more.pop("encode", json_lines), "jsonl", **more)


def ids(folder: Path) -> list[int]:
    """Return the ids that a reader finds, in the order of manifests."""
    place = Folder(folder)
    parts = [part for manifest in all_manifests(place) for part in manifest.parts]
    return [json.loads(line)["id"] for part in parts for line in place.get(part.path).splitlines()]


def files_in(folder: Path) -> set[str]:
    return {path for path in Folder(folder).list("") if not path.startswith("manifests/")}


def named_in(folder: Path) -> set[str]:
    return {part.path for manifest in all_manifests(Folder(folder)) for part in manifest.parts}


class Stop(Exception):
    """Stands for a process that dies."""


class StopAt:
    def __init__(self, point: str) -> None:
        self.point = point

    def at(self, point: str) -> None:
        if point == self.point:
            raise Stop


async def test_files_are_by_kind_and_day_and_the_manifest_names_them(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1), change(2, "other"), change(3, minutes=2), change(4)])
    manifest = last_manifest(Folder(tmp_path))
    assert (manifest.number, manifest.cursor, manifest.changes) == (1, 4, [(1, 4)])
    assert [(part.kind, part.date, part.rows, part.first, part.last) for part in manifest.parts] == [
        ("thing", "2026-03-14", 2, 1, 4),
        ("other", "2026-03-14", 1, 2, 2),
        ("thing", "2026-03-15", 1, 3, 3),
    ]
    assert all((tmp_path / part.path).stat().st_size == part.bytes for part in manifest.parts)


async def test_a_line_is_the_whole_change(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1, body={"uid": "k1", "tags": ["ü"]})])
    (part,) = last_manifest(Folder(tmp_path)).parts
    assert json.loads((tmp_path / part.path).read_bytes()) == {
        "id": 1,
        "kind": "thing",
        "key": "k1",
        "op": "new",
        "version": 1,
        "scope": "world",
        "job": str(JOB),
        "pipeline": "rig",
        "at": "2026-03-14T23:59:00Z",
        "body": {"uid": "k1", "tags": ["ü"]},
    }


@pytest.mark.parametrize("point", ["files-written", "files-committed"])
async def test_a_crash_neither_loses_nor_doubles_however_the_next_batch_is_cut(tmp_path: Path, point: str) -> None:
    await sink_in(tmp_path).write([change(1), change(2)])
    with pytest.raises(Stop):
        await sink_in(tmp_path, faults=StopAt(point)).write([change(3), change(5)])
    assert ids(tmp_path) == ([1, 2] if point == "files-written" else [1, 2, 3, 5])
    heir = sink_in(tmp_path)
    await heir.write([change(2), change(3), change(5), change(8)])
    await heir.write([change(9)])
    assert ids(tmp_path) == [1, 2, 3, 5, 8, 9]
    await sink_in(tmp_path).write([change(10)])
    assert files_in(tmp_path) == named_in(tmp_path), "what the crash left behind is removed"


async def test_what_a_crash_left_in_several_folders_is_removed_when_its_changes_come_again(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1), change(2, "other"), change(3, minutes=5)])
    with pytest.raises(Stop):
        await sink_in(tmp_path, faults=StopAt("files-written")).write(
            [change(4), change(5, "other"), change(6, minutes=5)]
        )
    assert len(files_in(tmp_path) - named_in(tmp_path)) == 3
    heir = sink_in(tmp_path)
    for number, kind, minutes in ((4, "thing", 0), (5, "other", 0), (6, "thing", 5)):
        await heir.write([change(number, kind, minutes=minutes)])
    assert files_in(tmp_path) == named_in(tmp_path)
    assert ids(tmp_path) == [1, 2, 3, 4, 5, 6]


async def test_a_start_finds_the_newest_manifest_by_a_note_without_listing_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_manifest, "NOTED_EVERY", 2)
    sink = sink_in(tmp_path)
    for number in range(1, 8):
        await sink.write([change(number)])
    assert (tmp_path / files_manifest.NOTE).read_text() == "6"
    monkeypatch.setattr(Folder, "list", None)
    assert last_manifest(Folder(tmp_path)).number == 7
    monkeypatch.undo()
    for note in ("600", "x", ""):
        (tmp_path / files_manifest.NOTE).write_text(note)
        assert last_manifest(Folder(tmp_path)).number == 7, "a note that is wrong is not believed"


async def test_manifests_are_listed_at_the_start_only_and_a_folder_once_for_every_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    listing = Folder.list

    def listed_by(place: Folder, under: str) -> Iterator[str]:
        listed.append(under)
        return listing(place, under)

    monkeypatch.setattr(Folder, "list", listed_by)
    sink = sink_in(tmp_path, largest=1_000)
    for number in range(1, 4):
        await sink.write([change(number)])
    assert listed == ["manifests", "thing/2026-03-14"]
    with pytest.raises(Permanent):
        await sink.write([change(4, body={"text": "x" * 1_000})])
    for number in range(5, 8):
        await sink.write([change(number)])
    assert listed[2:] == ["thing/2026-03-14"]
    assert ids(tmp_path) == [1, 2, 3, 5, 6, 7]


async def test_of_two_writers_at_once_one_commits_and_the_other_reads_on(tmp_path: Path) -> None:
    one, other = sink_in(tmp_path), sink_in(tmp_path)
    await one.write([change(1)])
    await other.write([change(2)])
    with pytest.raises(Transient, match="Another process"):
        await one.write([change(2), change(3)])
    assert ids(tmp_path) == [1, 2]
    await one.write([change(2), change(3)])
    assert ids(tmp_path) == [1, 2, 3]
    assert files_in(tmp_path) == named_in(tmp_path)


async def test_a_change_that_was_refused_once_is_written_when_it_is_retried_and_a_replay_adds_nothing(
    tmp_path: Path,
) -> None:
    sink = sink_in(tmp_path, largest=1_000)
    with pytest.raises(Permanent, match="Change 2"):
        await sink.write([change(2, body={"text": "x" * 1_000})])
    await sink.write([change(1)])
    await sink.write([change(3)])
    await sink.write([change(2)])
    for _ in range(2):
        await sink.write([change(1), change(2), change(3)])
    assert ids(tmp_path) == [1, 3, 2]
    assert last_manifest(Folder(tmp_path)).cursor == 3
    await sink_in(tmp_path).write([change(1), change(2), change(3), change(4)])
    assert ids(tmp_path) == [1, 3, 2, 4]


async def test_after_the_folder_was_moved_away_a_replay_writes_everything_again_in_the_same_process(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "exports"
    sink = sink_in(folder)
    await sink.write([change(1), change(2)])
    await sink.write([change(3)])
    folder.rename(tmp_path / "moved")
    await sink.write([change(1), change(2), change(3)])
    assert ids(folder) == [1, 2, 3] == ids(tmp_path / "moved")
    assert [manifest.number for manifest in all_manifests(Folder(folder))] == [1], "numbered from 1, without a gap"
    await sink.write([change(3), change(4)])
    assert ids(folder) == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["{", '{"version": 7}'])
async def test_a_manifest_that_cannot_be_read_stops_the_sink_and_sets_nothing_aside(
    tmp_path: Path, damage: str
) -> None:
    await sink_in(tmp_path).write([change(1)])
    (tmp_path / Manifest(number=1).path).write_text(damage)
    with pytest.raises(Transient, match="Restore it"):
        await sink_in(tmp_path).write([change(2)])


async def test_a_path_that_is_not_a_folder_counts_as_unreachable_and_refuses_no_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        await sink_in(tmp_path / "file").write([change(1)])


def test_csv_has_a_column_for_each_field_and_no_cell_is_a_formula__S17() -> None:
    def rows(kind: str, changes: Sequence[Change]) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(Csv({"thing": ("uid", "tags", "size")})(kind, changes).decode())))

    (row,) = rows("thing", [change(1, body={"uid": '=cmd|"/c calc"!A0', "tags": ["a", "b"], "size": -3})])
    assert row["body.uid"].startswith("'=")
    assert (row["body.tags"], row["body.size"], row["id"], row["job"]) == ('["a","b"]', "-3", "1", str(JOB))
    assert row["at"] == "2026-03-14T23:59:00Z"
    (job,) = rows("job", [change(2, "job", body={"state": "running"})])
    assert json.loads(job["body"]) == {"state": "running"}


async def test_a_row_makes_a_folder_of_its_name(tmp_path: Path) -> None:
    async with open_app(new_settings(home=tmp_path, files_folder=tmp_path / "out")) as app:
        await app.roster.add(SinkRow("jobs", "files", kinds=frozenset({"job"}), options={"format": "csv"}))
        await app.submit("places", {"keyword": "bars", "zips": ["85001"], "dry_run": True})
        async with app.engine(schedules=False):
            await until(lambda: last_manifest(Folder(tmp_path / "out" / "jobs")).cursor)
    (part,) = last_manifest(Folder(tmp_path / "out" / "jobs")).parts
    assert part.path.startswith("job/")
    assert part.path.endswith(".csv")
