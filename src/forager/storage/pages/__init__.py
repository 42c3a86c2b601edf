"""Stored pages: in a local folder (append-only segment files, and an index that can be rebuilt from them), or in an
object store."""
