"""Stored pages: in a local folder (append-only segment files, and an index that can be rebuilt from them), or in an
object store."""

from forager.fetch.blobs.local import LocalBlobs
from forager.fetch.blobs.remote import RemoteBlobs

__all__ = ["LocalBlobs", "RemoteBlobs"]
