"""Stored pages in a local folder: append-only segment files, and an index that can be rebuilt from them."""

from forager.fetch.blobs.local import LocalBlobs

__all__ = ["LocalBlobs"]
