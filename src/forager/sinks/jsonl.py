"""The JSONL sink: every change as one line of JSON, appended to part files in a folder, with a manifest.

A batch is written completely or not at all. Its lines are first appended to the newest part and synced to disk; then
the manifest, which holds the valid length of each part, is replaced atomically. Bytes beyond that length are the rest
of an interrupted write: readers ignore them, and the next write truncates them. Valid bytes never change.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, Field, ValidationError

from forager.core.change import Change
from forager.core.errors import FieldError, Permanent, Rejected, Transient
from forager.core.faults import Faults, NoFaults
from forager.core.names import unknown_choice
from forager.core.sink import Batching, SinkRow
from forager.kit.change_json import change_line
from forager.kit.service import SinkService
from forager.kit.setting_types import Location, Texts
from forager.kit.settings import FeatureSettings, setting

MANIFEST = "manifest.json"
MEGABYTE = 1024 * 1024
PART_BYTES = 64 * MEGABYTE
LARGEST_LINE = 100 * MEGABYTE
"""Longer lines are refused, because loaders of JSON lines have limits of this size."""
LOCK_SECONDS = 10.0
_ID = re.compile(rb'^\{"id":(\d+),', re.MULTILINE)


class JsonlSettings(FeatureSettings):
    jsonl_sink: Location | None = setting(
        None, "Folder to which every change is written as a line of JSON (default: none).", group="Sinks"
    )
    jsonl_sink_kinds: Texts = setting(
        (), "Kinds of changes that are written there, separated by commas (default: all).", group="Sinks"
    )


def from_settings(service: SinkService) -> SinkRow | None:
    """Return the sink `jsonl` if a folder is set. Raises `Rejected` if a kind is set that no pipeline has."""
    settings = service.settings.of(JsonlSettings)
    if settings.jsonl_sink is None:
        return None
    known = {"job", "task", *(record.kind for pipeline in service.pipelines.values() for record in pipeline.records)}
    if unknown := sorted(set(settings.jsonl_sink_kinds) - known):
        problem = FieldError("FORAGER_JSONL_SINK_KINDS", unknown_choice("kind", unknown[0], known))
        raise Rejected(f"{problem.field}: {problem.message}.", fields=[problem])
    return SinkRow(JsonlSink.name, "jsonl", kinds=frozenset(settings.jsonl_sink_kinds) or None)


def build(service: SinkService, row: SinkRow) -> "JsonlSink":
    folder = service.settings.of(JsonlSettings).jsonl_sink
    if folder is None:
        raise Rejected("FORAGER_JSONL_SINK names no folder.")
    return JsonlSink(folder, kinds=row.kinds)


class Part(BaseModel):
    """The valid contents of one part file."""

    name: str
    bytes: int = 0
    lines: int = 0
    first: int | None = None
    """The range of its change numbers, without the late ones."""
    last: int | None = None
    late: list[int] = Field(default_factory=list)
    """Changes with lower numbers than those before them: refused at first, delivered on a later retry."""


class Manifest(BaseModel):
    version: Literal[1] = 1
    parts: list[Part] = Field(default_factory=list)

    @property
    def last(self) -> int:
        """The highest change number that was written."""
        return max((part.last for part in self.parts if part.last is not None), default=0)


class JsonlSink:
    """Writes to one folder. Several processes may share it: a lock file lets one write at a time."""

    name = "jsonl"
    batching = Batching(age=0.5)  # every batch costs two syncs to disk

    def __init__(
        self,
        folder: Path,
        *,
        kinds: frozenset[str] | None = None,
        part_bytes: int = PART_BYTES,
        largest_line: int = LARGEST_LINE,
        faults: Faults | None = None,
    ) -> None:
        self.kinds = kinds
        self._folder = folder
        self._part_bytes = part_bytes
        self._largest_line = largest_line
        self._faults = faults or NoFaults()
        self._scanned: tuple[str, int, frozenset[int]] = ("", 0, frozenset())
        """Cache: the part that was read last, how much of it, and the numbers of its changes."""

    async def write(self, batch: Sequence[Change]) -> None:
        await asyncio.to_thread(self._write, batch)

    def _write(self, batch: Sequence[Change]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with _locked(self._folder / ".lock"):
            manifest = read_manifest(self._folder)
            new = [(change.id, self._line(change)) for change in batch if not self._has(manifest, change.id)]
            if new:
                self._append(manifest, new)

    def _append(self, manifest: Manifest, new: Sequence[tuple[int, bytes]]) -> None:
        if not manifest.parts or manifest.parts[-1].bytes >= self._part_bytes:
            manifest.parts.append(Part(name=f"part-{len(manifest.parts) + 1:08d}.jsonl"))
        part, last = manifest.parts[-1], manifest.last
        added = b"".join(line for _, line in new)
        append(self._folder / part.name, part.bytes, added)
        self._faults.at("appended")
        in_order = [number for number, _ in new if number > last]
        part.late += [number for number, _ in new if number <= last]
        part.first = part.first if part.first is not None else next(iter(in_order), None)
        part.last = in_order[-1] if in_order else part.last
        part.bytes += len(added)
        part.lines += len(new)
        replace_file(self._folder / MANIFEST, orjson.dumps(manifest.model_dump(), option=orjson.OPT_INDENT_2))

    def _has(self, manifest: Manifest, number: int) -> bool:
        """Return whether a change was written before, as happens after a lost answer or in a replay."""
        if number > manifest.last:
            return False
        if any(number in part.late for part in manifest.parts):
            return True
        for part in manifest.parts:
            if part.first is not None and part.last is not None and part.first <= number <= part.last:
                return number in self._numbers(part)
        return False

    def _numbers(self, part: Part) -> frozenset[int]:
        """Return the change numbers in a part. A replay reads the parts in order, so caching one is enough."""
        name, size, numbers = self._scanned
        if (name, size) != (part.name, part.bytes):
            with (self._folder / part.name).open("rb") as file:
                numbers = frozenset(int(number) for number in _ID.findall(file.read(part.bytes)))
            self._scanned = (part.name, part.bytes, numbers)
        return numbers

    def _line(self, change: Change) -> bytes:
        line = change_line(change)  # begins with the id: `_ID` looks for it
        if len(line) > self._largest_line:
            raise Permanent(
                f"Change {change.id} ({change.kind} {change.key[:100]}) has {len(line):,} bytes;"
                f" a line has at most {self._largest_line:,}."
            )
        return line


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder. Raises `Transient` if it cannot be read: an operator has to repair it, and
    meanwhile no change may count as refused."""
    file = folder / MANIFEST
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Manifest()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Transient(f"{file} cannot be read ({wrong}). Restore it, or move the folder away and replay.") from error


def read_lines(folder: Path) -> Iterator[bytes]:
    """Yield every valid line in order of writing, as a reader of the folder would."""
    for part in read_manifest(folder).parts:
        with (folder / part.name).open("rb") as file:
            yield from file.read(part.bytes).splitlines()


def append(path: Path, size: int, added: bytes) -> None:
    """Truncate a file to `size` bytes, append these, and sync it to disk."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
        if file.seek(0, os.SEEK_END) < size:
            raise Transient(
                f"{path} is shorter than the manifest says. Restore it, or move the folder away and replay."
            )
        file.truncate(size)
        file.seek(size)
        file.write(added)
        file.flush()
        os.fsync(file.fileno())
    if not size:  # the name of a new part must be on disk before a manifest has it
        _sync(path.parent)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically and sync it to disk: after a crash it is either the old one or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises `Transient` if another process holds it for too long."""
    with path.open("wb") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Transient(f"Another process holds {path}.") from None
                time.sleep(0.05)
        yield
