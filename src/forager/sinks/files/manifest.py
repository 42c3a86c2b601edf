"""Manifests: the commits of the files sink. A part counts if the manifest of its number names it.

Manifest N is created once, by the first writer; the next one is N + 1. So two writers never both commit, and a part
that was written under a number whose manifest exists without naming it can never count: it is safe to remove.
"""

from collections.abc import Iterator
from typing import Literal

import orjson
from pydantic import BaseModel, Field, ValidationError

from forager.core.errors import Transient
from forager.core.place import Place

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


def last_manifest(place: Place, known: int = 0) -> Manifest:
    """Return the newest manifest; an empty one with the number 0 if there is none.

    There may be millions. A note of one of the newest, or the number of one that the caller has `known`, saves listing
    them: from there on, each number is looked up.
    """
    noted = Manifest(number=known) if known else _noted(place)
    if noted is not None and place.find(noted.path) is not None:
        while place.find((following := Manifest(number=noted.number + 1)).path) is not None:
            noted = following
        return read_manifest(place, noted.path)
    last = max(place.list(FOLDER), default=None)
    return Manifest() if last is None else read_manifest(place, last)


def note_last(place: Place, committed: Manifest) -> None:
    """Note now and then which manifest is the newest, for the next start."""
    if committed.number % NOTED_EVERY == 0:
        place.put(NOTE, str(committed.number).encode())


def _noted(place: Place) -> Manifest | None:
    try:
        text = place.get(NOTE)
    except FileNotFoundError:
        return None
    return Manifest(number=int(text)) if text.isdigit() else None


def read_manifest(place: Place, path: str) -> Manifest:
    """Raises `Transient` if it cannot be read: an operator has to restore it, and no change may count as refused."""
    try:
        return Manifest.model_validate_json(place.get(path))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Transient(f"{path} cannot be read ({wrong}). Restore it, or move the folder away and replay.") from error


def all_manifests(place: Place, after: int = 0) -> Iterator[Manifest]:
    """Yield every manifest after this number, in order."""
    first = Manifest(number=after).path
    for path in sorted(path for path in place.list(FOLDER) if path > first):
        yield read_manifest(place, path)
