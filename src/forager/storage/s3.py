"""Storage in S3: a prefix in a bucket, of Amazon or of any server that speaks its protocol.

The client library (obstore) is an extra. Its own retries are off: the caller decides what to do after a failure.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from forager.core.errors import Rejected, Transient
from forager.core.storage import FileInfo
from forager.storage.settings import S3Address, S3Settings

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import S3Store


# Explains errors of the S3 client to an operator. Shows no key and no signature.


_ANSWER = re.compile(r"<Code>([^<]+)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)
_SERVER = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+)")
_ROLE_SERVICES = ("169.254.169.254", "169.254.170.2", "sts.amazonaws.com")
"""Hosts that provide the credentials of a machine's role. The client requests them if no key is set."""
LONGEST = 500


def explain(error: Exception) -> str:
    """Return one sentence without a full stop: the server's own words and code, or why there was no answer."""
    text = " ".join(str(error).partition("\n\nDebug source")[0].split()) or type(error).__name__
    if answer := _ANSWER.search(text):
        return f"{answer[2].rstrip('.') or 'refused'} ({answer[1]})"
    server = _SERVER.search(text)
    if server is not None and any(host in server[1] for host in _ROLE_SERVICES):
        return (
            "no access key is set, and this machine has no role: set FORAGER_S3_ACCESS_KEY and FORAGER_S3_SECRET_KEY,"
            " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if server is not None and "error sending request" in text:
        return f"{server[1]} cannot be reached"
    return text.removeprefix("Generic S3 error: ")[:LONGEST]


CHECK = ".create-check"
"""The file with which `create` is tried out. Its name is hidden from `list`."""


class S3:
    """Implements `core.storage.Storage`. Errors of the server and the network are `Transient`, with the server's words.

    `create` needs a server that obeys `If-None-Match`. Where one ignores it, two writers would overwrite each other's
    commits, so this is tried out before the first use, and such a server is refused.
    """

    def __init__(self, address: S3Address, settings: S3Settings) -> None:
        """Nothing is sent yet. Raises `Rejected` if the client library or a part of the login is missing."""
        self.address = address
        self._prefix = "".join(f"{name}/" for name in address.prefix)
        self._store = _store(address, settings)
        self._can_create = False

    def put(self, path: str, content: bytes) -> None:
        import obstore

        with self._translated():
            # One request: a large file in several would be left behind, invisible but paid for, by a process that dies.
            obstore.put(self._store, self._prefix + path, content, use_multipart=False)

    def create(self, path: str, content: bytes) -> bool:
        self._check_create()
        return self._create(path, content)

    def get(self, path: str) -> bytes:
        import obstore

        with self._translated(may_miss=True):
            return bytes(obstore.get(self._store, self._prefix + path).bytes())

    def find(self, path: str) -> FileInfo | None:
        import obstore

        try:
            with self._translated(may_miss=True):
                return self._info(obstore.head(self._store, self._prefix + path))
        except FileNotFoundError:
            return None

    def walk(self, under: str) -> Iterator[FileInfo]:
        import obstore

        with self._translated():
            for page in obstore.list(self._store, f"{self._prefix}{under}".rstrip("/") or None):
                for each in page:
                    if not each["path"].rpartition("/")[2].startswith("."):
                        yield self._info(each)

    def list(self, under: str) -> Iterator[str]:
        return (each.path for each in self.walk(under))

    def delete(self, path: str) -> None:
        import obstore

        with self._translated():
            obstore.delete(self._store, self._prefix + path)

    def _info(self, known: "ObjectMeta") -> FileInfo:
        modified = round(known["last_modified"].timestamp() * 1000)
        return FileInfo(known["path"].removeprefix(self._prefix), known["size"], modified)

    def _create(self, path: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._translated():
            try:
                obstore.put(self._store, self._prefix + path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def _check_create(self) -> None:
        if not self._can_create:
            self.put(CHECK, b"")
            if self._create(CHECK, b""):
                raise Transient(
                    f"The server of {self.address} ignores If-None-Match, so two writers could overwrite each other."
                    " Use a server that obeys it (Amazon, MinIO, Ceph, R2 and SeaweedFS do in their current releases)."
                )
            self._can_create = True

    @contextmanager
    def _translated(self, *, may_miss: bool = False) -> Iterator[None]:
        """Turn errors of the library into ours. With `may_miss`, a missing file is a `FileNotFoundError`."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            told = f"{self.address}: {explain(error)}."
            if may_miss and isinstance(error, FileNotFoundError):
                raise FileNotFoundError(told) from error
            raise Transient(told) from error


def _store(address: S3Address, settings: S3Settings) -> "S3Store":
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise Rejected(f"{address} needs the S3 client: pip install 'forager-data[s3]'") from error
    missing = [settings.s3_access_key is None, settings.s3_secret_key is None]
    if any(missing) and not all(missing):
        raise Rejected("FORAGER_S3_ACCESS_KEY and FORAGER_S3_SECRET_KEY belong together: set both, or neither.")
    options: dict[str, object] = {"timeout": timedelta(seconds=settings.s3_timeout_seconds)}
    if settings.s3_ca_file is not None:
        options["root_certificate"] = _certificate(settings)
    given = {"region": settings.s3_region}
    if settings.s3_endpoint is not None:
        given["endpoint"] = settings.s3_endpoint
        options["allow_http"] = settings.s3_endpoint.startswith("http://")
    if settings.s3_access_key is not None and settings.s3_secret_key is not None:
        given["access_key_id"] = settings.s3_access_key
        given["secret_access_key"] = settings.s3_secret_key.get_secret_value()
    return S3Store(address.bucket, client_options=options, retry_config={"max_retries": 0}, **given)  # type: ignore[arg-type]


def _certificate(settings: S3Settings) -> bytes:
    assert settings.s3_ca_file is not None  # noqa: S101 - the caller has checked it
    try:
        return settings.s3_ca_file.read_bytes()
    except OSError as error:
        raise Rejected(f"FORAGER_S3_CA_FILE cannot be read: {error.strerror}.") from error
