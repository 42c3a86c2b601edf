"""The port of file storage: a few verbs that a folder and an object store have in common.

Everything behind it blocks, so callers use it in a thread. It never retries by itself: a request that is sent again
after a lost answer would find its own file, and `create` would report that another writer was first.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Protocol

from forager.core.errors import BlobMissing
from forager.core.http import Fetch, Request, Response


@dataclass(frozen=True, slots=True)
class FileInfo:
    """Size and time of a stored file."""

    path: str
    size: int
    modified_ms: int
    """Time of the last write, by the clock of the storage, in Unix milliseconds."""


class Storage(Protocol):
    """A flat store of files. A path has `/` between its parts and never begins with one.

    Every verb raises `OSError` or `Transient` if the storage cannot be reached. The effect is then unknown, and may
    even happen later.
    """

    def put(self, path: str, content: bytes) -> None:
        """Write a file durably; one of that path is replaced."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write a file durably, in one step, if the path is free. Returns False if there is one."""
        ...

    def get(self, path: str) -> bytes:
        """Return the content of a file. Raises `FileNotFoundError`."""
        ...

    def find(self, path: str) -> FileInfo | None:
        """Return size and time of a file; None if it does not exist."""
        ...

    def walk(self, under: str) -> Iterator[FileInfo]:
        """Yield all files under a folder, in any order; names that begin with a dot are left out."""
        ...

    def list(self, under: str) -> Iterator[str]:
        """Yield the paths of these files."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


# Stored pages: answers that a step keeps, and can read again later without its lane or the network.
#
# A stored page has its own URL: `blob:` and the digest of its content. Only a step's request may have such a URL;
# everything from outside (job parameters, redirects, robots.txt) is checked by the egress guard, which refuses it. A
# page is stored before the commit that refers to it. It may still be lost later, and is then fetched again. Nothing
# here does I/O.


SCHEME = "blob:"
DIGEST_BYTES = 20
_URL = re.compile(rf"blob:[0-9a-f]{{{2 * DIGEST_BYTES}}}")

References = Callable[[], AsyncIterator[Sequence[str]]]
"""Yields all `blob:` URLs that something still refers to, in batches."""


PAGES = "/api/v1/pages/"
"""The API's path of stored pages. The views of pipelines with stored pages contain the same text."""


def page_path(blob: str | None) -> str | None:
    """Return where the API shows the stored page with this `blob:` URL."""
    return None if blob is None else PAGES + blob.removeprefix(SCHEME)


def picture_path(blob: str | None) -> str | None:
    """Return where the API has the stored picture with this `blob:` URL, as an image."""
    return None if blob is None else f"{page_path(blob)}/raw"


def is_blob(url: str) -> bool:
    """Return whether this is the URL of a stored page."""
    return _URL.fullmatch(url) is not None


def blobs_in(value: object) -> list[str]:
    """Return the `blob:` URLs that a field holds: one as text, or several in a list or mapping, also as JSON."""
    if isinstance(value, Mapping):
        return [url for each in value.values() for url in blobs_in(each)]
    if isinstance(value, list | tuple):
        return [url for each in value for url in blobs_in(each)]
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return _URL.findall(value) if isinstance(value, str) else []


FileName = Literal["raw", "rendered", "screenshot", "pdf"]
"""`raw`: as the site sent it. `rendered`: as a browser had it after its scripts. `screenshot`: a picture of it. `pdf`:
as a browser printed it."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is kept of a page. Its content comes from a site: it must never run in a reader's browser."""

    name: FileName
    content_type: str
    body: bytes
    url: str | None = None
    status: int | None = None
    at: datetime | None = None
    """Time when it was fetched."""


@dataclass(frozen=True, slots=True)
class BlobStat:
    """Number and size of stored pages."""

    pages: int
    size: int | None
    """Bytes of the pages as they were received; None where that is not known, in an object store."""
    stored: int
    """Bytes on disk."""
    unused: int
    """Bytes on disk that no longer belong to any page; the next collection may free them."""
    segments: int


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a collection of unused pages."""

    pages: int
    """Pages that were removed."""
    kept: int
    freed: int
    """Bytes freed on disk."""
    segments: int
    """Files removed, including those whose remaining pages were moved to another one."""
    dry_run: bool = False


class Blobs(Protocol):
    """The store of pages."""

    async def keep(self, response: Response) -> str:
        """Store an answer and return its `blob:` URL.

        The same answer (URL, status, content type and body) has the same URL and is stored once. When this returns, a
        crash of the process does not lose the page. Raises `StoreError` if there is no room or no access.
        """
        ...

    async def read(self, blob: str) -> Response:
        """Return the answer as it was stored. Raises `BlobMissing` if it is gone or damaged."""
        ...

    async def stat(self) -> BlobStat: ...

    async def collect(self, references: References, *, dry_run: bool = False) -> Collected:
        """Remove the pages that nothing refers to, and return their space to the disk.

        A recently stored page is never removed, because the commit that refers to it may still be under way. Raises
        `Conflict` while another process collects in the same folder.
        """
        ...


async def read_or_fetch(fetch: Fetch, blob: str | None, request: Request) -> Response:
    """Read a stored page; if it is not stored or lost, fetch it with `request` and store it again."""
    if blob is not None:
        try:
            return await fetch(Request(blob))
        except BlobMissing:
            pass
    return await fetch(replace(request, keep=True))
