"""Stored pages in a local folder: segment files that are only appended to, and an index that can be made from them."""

from forager.fetch.blobs.local import LocalBlobs

__all__ = ["LocalBlobs"]
