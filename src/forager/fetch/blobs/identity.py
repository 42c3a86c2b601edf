"""The id of a folder of stored pages, kept in a file inside it.

The ledger keeps the same id. A process whose folder has another one would store pages where other machines cannot read
them, and could not read theirs.
"""

import contextlib
import os
from pathlib import Path
from uuid import uuid4

FILE = "folder.id"
LONGEST = 100


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
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"{FILE}.{os.getpid()}"
    fresh.write_text(f"{uuid4()}\n", "ascii")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(fresh, folder / FILE)  # fails if another process was first, so that the file is never replaced
    finally:
        fresh.unlink()
    return (folder / FILE).read_text("ascii").strip()
