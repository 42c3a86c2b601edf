"""The id of a store of stored pages (a folder, or a place in S3), kept in a file inside it.

The ledger keeps the same id. A process whose store has another one would keep pages where other machines cannot read
them, and could not read theirs. In S3, a collection would also remove the pages of another ledger.
"""

import contextlib
import os
from pathlib import Path
from uuid import uuid4

from forager.core.place import Place

FILE = "folder.id"
LONGEST = 100


def new_place_id(where: str) -> str:
    """Return a new id for a place. It contains the address, so that the ledger alone shows which place it means."""
    return f"{uuid4()}@{where}"


def read_place_id(place: Place) -> str | None:
    """Return the id of a place; None if it has none yet."""
    try:
        return place.get(FILE).decode("utf-8", "replace").strip() or None
    except FileNotFoundError:
        return None


def give_place_id(place: Place, wanted: str) -> str | None:
    """Give a place this id, unless it has one. Returns the one that it has then."""
    place.create(FILE, wanted.encode())
    return read_place_id(place)


def read_folder_id(folder: Path) -> str | None:
    """Return the id of a folder; None if it has none yet, or does not exist."""
    try:
        text = (folder / FILE).read_text("ascii", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return text[:LONGEST].strip() or None


def make_folder_id(folder: Path) -> str:
    """Return the id of a folder. One without an id gets a new one; if several processes do this at once, they all
    return the same."""
    known = read_folder_id(folder)
    if known is not None:
        return known
    for each in (folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"{FILE}.{os.getpid()}"
    fresh.write_text(f"{uuid4()}\n", "ascii")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(fresh, folder / FILE)  # fails if another process was first, so that the file is never replaced
    finally:
        fresh.unlink()
    return (folder / FILE).read_text("ascii").strip()
