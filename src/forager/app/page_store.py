"""The store of pages that the settings name: the data folder, or a place in S3."""

from functools import partial
from typing import Any

from forager.app.fit import adopt_blob_folder, adopt_blob_place, check_blob_folder, check_blob_place
from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.place import Place
from forager.fetch.blobs import LocalBlobs, RemoteBlobs
from forager.settings import Settings
from forager.storage.address import S3Address
from forager.storage.opening import open_place
from forager.storage.settings import S3Settings
from forager.wiring import blob_folder


def open_blobs(settings: Settings, database: Database, clock: Clock) -> LocalBlobs | RemoteBlobs:
    """Return the store. Nothing is opened or sent yet. Raises `Rejected` if the client library of S3 is missing."""
    keep: dict[str, Any] = {"grace": settings.blob_grace_hours, "days": settings.blob_days}
    if settings.blobs is None:
        return LocalBlobs(blob_folder(settings), clock, **keep)
    place, where = _place(settings, settings.blobs)
    return RemoteBlobs(place, where, clock, partial(check_blob_place, database, place, where), **keep)


async def check_blobs(settings: Settings, database: Database) -> None:
    """Raise `StoreError`, with the remedy, if the pages of this ledger are stored elsewhere."""
    if settings.blobs is None:
        await check_blob_folder(database, blob_folder(settings))
    else:
        await check_blob_place(database, *_place(settings, settings.blobs))


async def adopt_blobs(settings: Settings, database: Database) -> str:
    """Make this store the ledger's, and return its id."""
    if settings.blobs is None:
        return await adopt_blob_folder(database, blob_folder(settings))
    return await adopt_blob_place(database, *_place(settings, settings.blobs))


def _place(settings: Settings, address: S3Address) -> tuple[Place, str]:
    return open_place(address, settings.of(S3Settings)), str(address)
