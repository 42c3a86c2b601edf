"""The state after a power cut: a manifest appears only when everything it names is on disk, and nothing leaves the
ledger before its file is.

The disk is observed at its system calls. Content is on disk once its file was synced, a name once its folder was. What
was not synced may be lost or kept, in any order; so a manifest that has its name counts as kept, and data that was not
synced counts as lost.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forager.app.archive import JSON_LINES
from forager.core.change import Change
from forager.core.clock import SystemClock
from forager.core.sink import SinkRow
from forager.core.states import TaskState
from forager.engine.archive import Archiver
from forager.ledger.tables.pages import ArchiveTable
from forager.sinks.files.manifest import json_lines
from forager.sinks.files.sink import FilesSink
from forager.storage.folder import Folder
from tests.support.rig import Rig
from tests.support.rig_pipelines import Thing, calls

HALF_A_YEAR = 180 * 86_400.0


class Disk:
    """The contents on disk below a folder, by the system calls of this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: dict[int, bytes] = {}
        """Content of each file (by inode) when it was last synced."""
        self._names = {root}
        """Paths whose names are on disk."""
        self.appeared: dict[Path, dict[Path, bytes]] = {}
        """Maps each manifest to what was on disk when the file got its name, the last time that it did."""

    def synced(self, handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            self._names.update(path.iterdir())
        elif path.is_relative_to(self._root):
            self._synced[os.fstat(handle).st_ino] = path.read_bytes()

    def named(self, path: Path) -> None:
        """Note that a file gets a name now."""
        if path.is_relative_to(self._root) and "manifest" in str(path) and not path.name.startswith("."):
            self.appeared[path] = self.content()

    def content(self) -> dict[Path, bytes]:
        """Return what a power cut now would certainly leave: files that were synced, under names that were."""
        kept = {}
        for path in self._names:
            if path.is_file() and self._is_reached(path) and (number := path.stat().st_ino) in self._synced:
                kept[path] = self._synced[number]
        return kept

    def _is_reached(self, path: Path) -> bool:
        return all(each in self._names for each in path.parents if each.is_relative_to(self._root))


_watching: list[Disk] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in ("os.link", "os.rename"):
        _watching[-1].named(Path(os.fsdecode(arguments[1])))
    elif event == "open" and isinstance(arguments[0], str) and "w" in (arguments[1] or ""):
        _watching[-1].named(Path(arguments[0]))


sys.addaudithook(_audit)


@contextmanager
def power_may_fail(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    root.mkdir(parents=True)
    disk, fsync = Disk(root), os.fsync

    def watched(handle: int) -> None:
        fsync(handle)
        disk.synced(handle)

    monkeypatch.setattr(os, "fsync", watched)
    _watching.append(disk)
    try:
        yield disk
    finally:
        _watching.remove(disk)


class SkipsSync(Folder):
    """A broken build: files are written, and left to the system."""

    def put(self, path: str, content: bytes) -> None:
        file = self._root / path
        self._make(file.parent)
        file.write_bytes(content)


class ManifestFirst(Folder):
    """A broken build: the manifest gets its name before the files that it names are written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._late: list[tuple[str, bytes]] = []

    def put(self, path: str, content: bytes) -> None:
        if path.startswith("thing/"):
            self._late.append((path, content))
        else:
            super().put(path, content)

    def create(self, path: str, content: bytes) -> bool:
        made = super().create(path, content)
        for late in self._late:
            super().put(*late)
        return made


def change(number: int) -> Change:
    at = 1_773_489_840_120 + number * 3_600_000  # several days, so several folders
    return Change(number, "thing", f"k{number}", "new", 1, None, "rig", at, {"uid": f"k{number}"})


def check_files(disk: Disk, folder: Path) -> None:
    manifests = sorted(path for path in (folder / "manifests").glob("0*.json"))
    assert manifests
    for manifest in manifests:
        there = disk.appeared[manifest]
        for part in json.loads(manifest.read_bytes())["parts"]:
            assert len(there.get(folder / part["path"], b"")) == part["bytes"], f"{manifest.name} came before its data"
        assert disk.content().get(manifest) == manifest.read_bytes(), "the commit itself is on disk"


async def write_files(disk: Disk, place: Folder) -> None:
    sink = FilesSink(SinkRow("files", "files"), place, json_lines, "jsonl")
    await sink.write([change(number) for number in range(1, 40)])
    await sink.write([change(number) for number in range(40, 60)])


async def test_a_manifest_of_the_files_sink_appears_when_its_files_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with power_may_fail(tmp_path / "files", monkeypatch) as disk:
        await write_files(disk, Folder(tmp_path / "files"))
        check_files(disk, tmp_path / "files")


@pytest.mark.parametrize("broken", [SkipsSync, ManifestFirst])
async def test_a_build_whose_manifest_comes_before_its_data_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: type[Folder]
) -> None:
    """The negative control of the test above."""
    with power_may_fail(tmp_path / "files", monkeypatch) as disk:
        await write_files(disk, broken(tmp_path / "files"))
        with pytest.raises(AssertionError):
            check_files(disk, tmp_path / "files")


class WhenRemoved:
    """Looks at the disk at the moment when the ledger has removed the records."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.there: list[dict[Path, bytes]] = []

    def at(self, point: str) -> None:
        if point == "archive-moved":
            self.there.append(self._disk.content())


async def archive(rig: Rig, disk: Disk, place: Folder, folder: Path) -> WhenRemoved:
    await rig.submit(calls(1))
    worker = await rig.worker()
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.COMPLETED, records=[Thing(uid=f"t{number}") for number in range(8)])
    await rig.ledger.end(worker.session)
    rig.pass_time(2 * HALF_A_YEAR)
    faults = WhenRemoved(disk)
    table = ArchiveTable(rig.ledger.database, rig.catalog, rig.ledger.now_ms)
    mover = Archiver(rig.ledger, table, place, str(folder), JSON_LINES, SystemClock(), most=3, faults=faults)
    moved = await mover.move("thing", await rig.ledger.now_ms() - round(HALF_A_YEAR * 1000))
    assert moved.records == 3
    return faults


def check_archive(disk: Disk, folder: Path, faults: WhenRemoved) -> None:
    (manifest,) = (folder / "manifests").glob("*.json")
    named = json.loads(manifest.read_bytes())
    file = folder / named["path"]
    for there in (faults.there[0], disk.appeared[manifest]):
        assert len(there.get(file, b"")) == named["bytes"] > 0, "its records had left the ledger"


async def test_records_leave_the_ledger_when_their_file_is_on_disk(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    with power_may_fail(folder, monkeypatch) as disk:
        faults = await archive(rig, disk, Folder(folder), folder)
        check_archive(disk, folder, faults)


async def test_a_build_that_archives_without_syncing_is_found_out(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""
    folder = tmp_path / "archive"
    with power_may_fail(folder, monkeypatch) as disk:
        faults = await archive(rig, disk, SkipsSync(folder), folder)
        with pytest.raises(AssertionError):
            check_archive(disk, folder, faults)
