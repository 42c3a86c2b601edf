"""The JSONL sink: every change as one line of JSON, appended to part files in a folder, with a manifest.

A batch is in the folder whole or not at all. Its lines are appended to the newest part and flushed to the disk first;
then the manifest, which says how many bytes of each part count, is replaced in one step. Whatever lies behind those
bytes is the rest of a write that was cut off: readers ignore it, and the next write cuts it away. Bytes that count
never change.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel, Field, ValidationError

from forager.core.change import Change
from forager.core.errors import FieldError, Permanent, Rejected, Transient
from forager.core.faults import Faults, NoFaults
from forager.core.sink import Batching
from forager.kit.service import SinkService
from forager.kit.setting_types import Location, Texts
from forager.kit.settings import FeatureSettings, setting

MANIFEST = "manifest.json"
MEGABYTE = 1024 * 1024
PART_BYTES = 64 * MEGABYTE
LARGEST_LINE = 100 * MEGABYTE
"""Longer lines are refused: loaders of JSON lines have limits of this size."""
LOCK_SECONDS = 10.0
_ID = re.compile(rb'^\{"id":(\d+),', re.MULTILINE)


class JsonlSettings(FeatureSettings):
    jsonl_sink: Location | None = setting(
        None, "Folder to which every change is written as a line of JSON; without it, none is.", group="Sinks"
    )
    jsonl_sink_kinds: Texts = setting(
        (), "Kinds of changes that are written there, separated by commas; without it, all.", group="Sinks"
    )


def build(service: SinkService) -> "JsonlSink | None":
    """The sink, if a folder is set. Raises `Rejected` if a kind is set that no pipeline has."""
    settings = service.settings.of(JsonlSettings)
    if settings.jsonl_sink is None:
        return None
    known = {"job", "task", *(record.kind for pipeline in service.pipelines.values() for record in pipeline.records)}
    if unknown := sorted(set(settings.jsonl_sink_kinds) - known):
        problem = FieldError(
            "FORAGER_JSONL_SINK_KINDS", f"unknown kind {unknown[0]!r}; choose from {', '.join(sorted(known))}"
        )
        raise Rejected(f"{problem.field}: {problem.message}.", fields=[problem])
    return JsonlSink(settings.jsonl_sink, kinds=frozenset(settings.jsonl_sink_kinds) or None)


class Part(BaseModel):
    """One part file, as far as it counts."""

    name: str
    bytes: int = 0
    lines: int = 0
    first: int | None = None
    """The range of its changes, but for the late ones."""
    last: int | None = None
    late: list[int] = Field(default_factory=list)
    """Changes with lower numbers than those before them: refused once, and delivered after all."""


class Manifest(BaseModel):
    version: Literal[1] = 1
    parts: list[Part] = Field(default_factory=list)

    @property
    def last(self) -> int:
        """The highest number that was written."""
        return max((part.last for part in self.parts if part.last is not None), default=0)


class JsonlSink:
    """Writes to one folder. Two processes may have the same one: a lock file lets one write at a time."""

    name = "jsonl"
    batching = Batching(age=0.5)  # every batch is two flushes of the disk

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
        """The part that was read last, how much of it, and the numbers of its changes."""

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
        """Whether a change was written before: after a lost answer, or in a replay."""
        if number > manifest.last:
            return False
        if any(number in part.late for part in manifest.parts):
            return True
        for part in manifest.parts:
            if part.first is not None and part.last is not None and part.first <= number <= part.last:
                return number in self._numbers(part)
        return False

    def _numbers(self, part: Part) -> frozenset[int]:
        """The numbers in a part. A replay goes through the parts in order, so one is remembered."""
        name, size, numbers = self._scanned
        if (name, size) != (part.name, part.bytes):
            with (self._folder / part.name).open("rb") as file:
                numbers = frozenset(int(found) for found in _ID.findall(file.read(part.bytes)))
            self._scanned = (part.name, part.bytes, numbers)
        return numbers

    def _line(self, change: Change) -> bytes:
        line = orjson.dumps(
            {
                "id": change.id,  # first: `_ID` looks for it
                "kind": change.kind,
                "key": change.key,
                "op": change.op,
                "version": change.version,
                "scope": change.scope,
                "job": change.job,
                "pipeline": change.pipeline,
                "at": datetime.fromtimestamp(change.at / 1000, UTC),
                "body": change.body,
            },
            option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z,
        )
        if len(line) > self._largest_line:
            raise Permanent(
                f"Change {change.id} ({change.kind} {change.key[:100]}) has {len(line):,} bytes;"
                f" a line has at most {self._largest_line:,}."
            )
        return line


def read_manifest(folder: Path) -> Manifest:
    """What counts in a folder. Raises `Transient` if that cannot be read: only a person can mend it, and nothing that
    is to be written must be thought refused."""
    file = folder / MANIFEST
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Manifest()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Transient(f"{file} cannot be read ({wrong}). Restore it, or move the folder away and replay.") from error


def read_lines(folder: Path) -> Iterator[bytes]:
    """Every line that counts, in the order of writing: what a reader of the folder does."""
    for part in read_manifest(folder).parts:
        with (folder / part.name).open("rb") as file:
            yield from file.read(part.bytes).splitlines()


def append(path: Path, size: int, added: bytes) -> None:
    """Let a file be its first `size` bytes and these, on the disk."""
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


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step, on the disk: after a crash it is the old one or the new one, whole."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)  # also makes a new part's name last
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone in the folder, or `Transient` after a while: another process is writing, or hangs."""
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
