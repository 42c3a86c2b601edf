"""Manifests: the commits of the files sink. A part counts if the manifest of its number names it.

Manifest N is created once, by the first writer; the next one is N + 1. So two writers never both commit, and a part
that was written under a number whose manifest exists without naming it can never count: it is safe to remove.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field, ValidationError

from forager.core.change import Change
from forager.core.errors import Transient
from forager.core.record import Record
from forager.core.storage import Storage
from forager.sdk.delivery import change_json, change_line
from forager.sdk.parquet import ParquetTable
from forager.sdk.tabular import CsvTable

FOLDER = "manifests"
NOTE = ".last"
"""The number of a manifest that was the newest when this was written; hidden from lists."""
NOTED_EVERY = 100


class Part(BaseModel):
    path: str
    kind: str
    date: str
    """The day (UTC) on which its changes were committed."""
    rows: int
    bytes: int
    first: int
    last: int


class Manifest(BaseModel):
    version: Literal[1] = 1
    number: int = 0
    cursor: int = 0
    """The highest change number that was written, in this manifest or an earlier one."""
    clean: int = 0
    """Under numbers up to this one, parts that do not count have been removed."""
    parts: list[Part] = Field(default_factory=list)
    changes: list[tuple[int, int]] = Field(default_factory=list)
    """The numbers of its changes, as (first, last) of each run."""

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.number:012d}.json"

    def encoded(self) -> bytes:
        return orjson.dumps(self.model_dump(), option=orjson.OPT_INDENT_2)


def last_manifest(storage: Storage, known: int = 0) -> Manifest:
    """Return the newest manifest, or an empty one with the number 0.

    There may be millions. A note of one of the newest, or the number of one that the caller has read (`known`), saves
    listing them: from there on, each number is looked up.
    """
    noted = Manifest(number=known) if known else _noted(storage)
    if noted is not None and storage.find(noted.path) is not None:
        while storage.find((following := Manifest(number=noted.number + 1)).path) is not None:
            noted = following
        return read_manifest(storage, noted.path)
    last = max(storage.list(FOLDER), default=None)
    return Manifest() if last is None else read_manifest(storage, last)


def note_last(storage: Storage, committed: Manifest) -> None:
    """Note now and then which manifest is the newest, for the next start."""
    if committed.number % NOTED_EVERY == 0:
        storage.put(NOTE, str(committed.number).encode())


def _noted(storage: Storage) -> Manifest | None:
    try:
        text = storage.get(NOTE)
    except FileNotFoundError:
        return None
    return Manifest(number=int(text)) if text.isdigit() else None


def read_manifest(storage: Storage, path: str) -> Manifest:
    """Read a manifest. Raises `Transient` if it is damaged: an operator has to restore it, and no change is refused."""
    try:
        return Manifest.model_validate_json(storage.get(path))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Transient(f"{path} cannot be read ({wrong}). Restore it, or move the folder away and replay.") from error


def all_manifests(storage: Storage, after: int = 0) -> Iterator[Manifest]:
    """Yield every manifest after this number, in order."""
    first = Manifest(number=after).path
    for path in sorted(path for path in storage.list(FOLDER) if path > first):
        yield read_manifest(storage, path)


# The formats of files: JSON lines, CSV that is safe to open in a spreadsheet, and Parquet with types.


Encode = Callable[[str, Sequence[Change]], bytes]
"""`encode(kind, changes)`: the content of one file. All changes are of that kind."""
ABOUT = ("id", "kind", "key", "op", "version", "scope", "job", "pipeline", "at")
_ABOUT_TYPES = {**dict.fromkeys(ABOUT, str), "id": int, "version": int, "at": datetime}
_REST = "change_rest"


def json_lines(_: str, changes: Sequence[Change]) -> bytes:
    return b"".join(map(change_line, changes))


class Csv:
    """One column for each field of the record, after those that every change has; nested values are JSON."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        """`fields` by kind of record. Any other kind has its body in one column, as JSON."""
        self._fields = fields

    def __call__(self, kind: str, changes: Sequence[Change]) -> bytes:
        fields = self._fields.get(kind)
        names = ("body",) if fields is None else tuple(f"body.{name}" for name in fields)
        table = CsvTable((*ABOUT, *names), _encode)
        return table.header() + table.lines(map(change_json, changes))


class Parquet:
    """One typed column for each field of the record, after those of the change, which begin with `change_`."""

    def __init__(self, records: Mapping[str, type[Record]]) -> None:
        """`records` by kind. Any other kind (jobs, tasks) has its body in the column `change_rest`, as JSON. Raises
        `Rejected` if the package is not installed."""
        about = {f"change_{name}": annotation for name, annotation in _ABOUT_TYPES.items()}
        self._tables = {kind: ParquetTable(about, record, _REST) for kind, record in records.items()}
        self._others = ParquetTable(about, None, _REST)

    def __call__(self, kind: str, changes: Sequence[Change]) -> bytes:
        return self._tables.get(kind, self._others).encode(list(map(self._row, changes)))

    @staticmethod
    def _row(change: Change) -> tuple[dict[str, Any], Mapping[str, Any]]:
        about = {f"change_{name}": value for name, value in change_json(change).items() if name in _ABOUT_TYPES}
        return {**about, "change_job": str(change.job) if change.job else None}, change.body or {}


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)
