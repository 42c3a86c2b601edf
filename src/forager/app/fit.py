"""Checks, before a process works, that its key and its store of pages are the ledger's.

A process that does not fit would fail later, task by task: it could not open proxies and tokens that another machine
has sealed, nor read pages that another machine has stored.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from forager.core.database import Database
from forager.core.errors import SealBroken, StoreMisplaced
from forager.core.place import Place
from forager.core.secret import KeyUser, Seal
from forager.fetch.blobs.identity import FILE, give_place_id, make_folder_id, new_place_id, read_folder_id
from forager.ledger.side_tables.blob_folder import BlobFolderTable


async def check_keys(seal: Seal, tables: Sequence[KeyUser]) -> None:
    """Raise `SealBroken`, with the remedy, if something in the ledger is sealed with a key that is not available
    here. What is not sealed at all needs no key."""
    used = frozenset[str]().union(*[await table.key_ids() for table in tables])
    if missing := sorted(seal.missing(used)):
        some = f"the key {missing[0]}" if len(missing) == 1 else f"the keys {', '.join(missing)}"
        raise SealBroken(
            f"Secrets in the ledger are sealed with {some}, which this process does not have. Set FORAGER_SECRET_KEY"
            " to the same keys on every machine, or copy secret.key from the data folder of the machine that sealed"
            " them. If a key is lost, remove what it sealed: `forager proxies remove`, `forager jobs cancel`."
        )


async def check_blob_folder(database: Database, folder: Path) -> None:
    """Raise `StoreMisplaced`, with the remedy, if the ledger's stored pages are in another folder than this one. The
    first folder becomes the ledger's. The embedded store lies beside its pages and needs no check."""
    if database.dialect == "sqlite":
        return
    table = BlobFolderTable(database)
    own, wanted = await asyncio.to_thread(read_folder_id, folder), await table.get()
    if wanted is None:
        own = await asyncio.to_thread(make_folder_id, folder)
        wanted = await table.claim(own)
    if own != wanted:
        raise StoreMisplaced(
            f"The pages of this ledger are stored in another folder than {folder}. All processes of a ledger need the"
            " same one: mount it on this machine and set FORAGER_HOME to it, or set FORAGER_BLOBS if the others do. If"
            " the other folder is lost, `forager blobs adopt` makes this one the ledger's."
        )


async def check_blob_place(database: Database, place: Place, where: str) -> None:
    """Raise `StoreMisplaced`, with the remedy, unless this place in S3 has the pages of this ledger and of no other.
    The first place becomes the ledger's.

    The ledger notes the place first. So one that two ledgers are given belongs to the first, and a crash between the
    two notes is made up for by the next start.
    """
    table = BlobFolderTable(database)
    wanted = await table.get() or await table.claim(new_place_id(where))
    own = None
    if wanted.partition("@")[2] == where:
        own = await asyncio.to_thread(give_place_id, place, wanted)
    if own != wanted:
        raise StoreMisplaced(
            f"{where} has not the pages of this ledger: these are stored elsewhere, or it has those of another ledger."
            " All processes of a ledger need the same FORAGER_BLOBS, and each ledger needs its own. To use this place"
            " from now on, run `forager blobs adopt`; pages that are not in it are fetched again."
        )


async def adopt_blob_folder(database: Database, folder: Path) -> str:
    """Make this folder the one in which the ledger's pages are stored, and return its id. Processes with another
    folder are refused at their next start; pages stored there are fetched again when a task needs them."""
    made = await asyncio.to_thread(make_folder_id, folder)
    await BlobFolderTable(database).replace(made)
    return made


async def adopt_blob_place(database: Database, place: Place, where: str) -> str:
    """Make this place in S3 the one in which the ledger's pages are stored, and return its id."""
    made = await asyncio.to_thread(give_place_id, place, new_place_id(where))
    if made is None:
        raise StoreMisplaced(f"The id that was written to {where} is gone. Try again.")
    if made.partition("@")[2] != where:
        raise StoreMisplaced(f"{where} has a copy of other pages: remove its file `{FILE}`, then try again.")
    await BlobFolderTable(database).replace(made)
    return made
