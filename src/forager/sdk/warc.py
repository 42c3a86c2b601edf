"""Writes WARC 1.1 files, their CDXJ index, and WACZ packages. Pure but for the file that it is given.

Each record is a gzip member of its own, so that a reader can start at any record by its offset. The format is that of
ISO 28500:2017; `warcio`, `pywb` and other tools read it.
"""

import base64
import gzip
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

SOFTWARE = "Forager"
_UNSAFE = re.compile(r"[\x00-\x20\x7f-\uffff]")


@dataclass(frozen=True, slots=True)
class CapturedPage:
    """One stored answer."""

    url: str
    fetched_at: datetime
    status: int
    content_type: str
    body: bytes
    about: Mapping[str, str]
    """Fields of its metadata record."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of the answer."""
    method: str = "GET"
    sent: bytes = b""
    """The body of the request …"""
    sent_type: str = ""
    """… and its type."""
    screenshot: bytes | None = None
    """A PNG of the page."""


class WarcWriter:
    """Appends records to a file, and collects the lines of the index."""

    def __init__(self, file: BinaryIO, name: str, *, opens: bool = True) -> None:
        """`name`: the file's name in the index. `opens`: begin the file with a `warcinfo` record."""
        self._file = file
        self._name = name
        self._at = 0
        self.index: list[str] = []
        if not opens:
            return
        info = f"software: {SOFTWARE}\r\nformat: WARC File Format 1.1\r\n".encode()
        self._write("warcinfo", datetime.now(UTC), "application/warc-fields", info, {"WARC-Filename": name})

    def add(self, page: CapturedPage) -> None:
        """Write the response of a page, then its request and its metadata, and add it to the index.

        The request has only what is certain: Forager stores neither the headers that it sent nor cookies. Of the
        response's headers, those that describe the content are stored; the body is as decoded, so that no
        `Content-Encoding` is written.
        """
        url = _address(page.url)
        payload = _digest(page.body)
        named = {"WARC-Target-URI": url, "WARC-Payload-Digest": payload}
        start = self._at
        first = self._write(
            "response", page.fetched_at, "application/http; msgtype=response", _head(page) + page.body, named
        )
        length = self._at - start
        to = {"WARC-Target-URI": url, "WARC-Concurrent-To": first}
        self._write("request", page.fetched_at, "application/http; msgtype=request", _request(url, page), to)
        if page.screenshot is not None:
            self._write("resource", page.fetched_at, "image/png", page.screenshot, to)
        fields = "".join(f"{name}: {_line(value)}\r\n" for name, value in page.about.items()).encode()
        self._write("metadata", page.fetched_at, "application/warc-fields", fields, to)
        self.index.append(self._index_line(url, page, payload, start, length))

    def add_note(self, kind: str, url: str, at: datetime, content_type: str, block: bytes) -> None:
        """Write one record that is no page: `metadata` or `resource`."""
        self._write(kind, at, content_type, block, {"WARC-Target-URI": _address(url)})

    def add_members(self, members: bytes) -> None:
        """Append records of another file as they are. They are not added to the index: see `sdk.warc_read`."""
        self._file.write(members)
        self._at += len(members)

    def _index_line(self, url: str, page: CapturedPage, digest: str, offset: int, length: int) -> str:
        known = {"mime": page.content_type, "status": str(page.status), "digest": digest, "method": page.method}
        return index_line(url, page.fetched_at, known, self._name, offset, length)

    def _write(self, kind: str, at: datetime, content_type: str, block: bytes, more: Mapping[str, str]) -> str:
        """Write one record. Returns its id."""
        identity = f"<urn:uuid:{uuid4()}>"
        headers = {
            "WARC-Type": kind,
            "WARC-Record-ID": identity,
            "WARC-Date": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **more,
            "WARC-Block-Digest": _digest(block),
            "Content-Type": content_type,
            "Content-Length": str(len(block)),
        }
        head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        member = gzip.compress(head.encode() + block + b"\r\n\r\n", compresslevel=6, mtime=0)
        self._file.write(member)
        self._at += len(member)
        return identity


def index_line(url: str, at: datetime, known: Mapping[str, str], name: str, offset: int, length: int) -> str:
    """Return the line of an index for the response at this offset of the file `name`."""
    told = {
        "url": url,
        "mime": known["mime"].partition(";")[0].strip() or "application/octet-stream",
        "status": known["status"],
        "digest": known["digest"],
        **({"method": known["method"]} if known["method"] != "GET" else {}),
        "length": str(length),
        "offset": str(offset),
        "filename": name,
    }
    return f"{surt(url)} {at.astimezone(UTC).strftime('%Y%m%d%H%M%S')} {orjson.dumps(told).decode()}"


def cdxj(lines: Iterable[str]) -> bytes:
    """Return an index: its lines, sorted as bytes, as readers that search by halving expect."""
    return b"".join(sorted(line.encode() + b"\n" for line in lines))


def surt(url: str) -> str:
    """Return the key of a URL in an index: `com,example)/path?query`, so that the pages of a domain are neighbours."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    host = (parts.hostname or "").removeprefix("www.")
    is_name = not re.fullmatch(r"[0-9.]+|.*:.*", host)
    key = ",".join(reversed(host.split("."))) if is_name else host
    if port is not None and port != {"http": 80, "https": 443}.get(parts.scheme):
        key += f":{port}"
    query = f"?{'&'.join(sorted(parts.query.lower().split('&')))}" if parts.query else ""
    return f"{key}){(parts.path or '/').lower()}{query}"


def write_wacz(
    file: BinaryIO, warc: BinaryIO, name: str, index: Sequence[str], pages: Sequence[Mapping[str, str]]
) -> None:
    """Write a WACZ 1.1.1 package: the WARC file (`name`), its index, the list of pages, and their digests.

    The WARC file is stored as it is, because players read ranges of it.
    """
    header = {"format": "json-pages-1.0", "id": "pages", "title": "All pages"}
    listed = b"".join(orjson.dumps(each) + b"\n" for each in (header, *pages))
    resources = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as package:
        contents: tuple[tuple[str, BinaryIO, int], ...] = (
            (f"archive/{name}", warc, zipfile.ZIP_STORED),
            ("indexes/index.cdxj", io.BytesIO(cdxj(index)), zipfile.ZIP_STORED),
            ("pages/pages.jsonl", io.BytesIO(listed), zipfile.ZIP_DEFLATED),
        )
        for path, content, how in contents:
            digest, size = hashlib.sha256(), 0
            info = zipfile.ZipInfo(path, datetime.now(UTC).timetuple()[:6])
            info.compress_type = how
            with package.open(info, "w", force_zip64=True) as to:
                while chunk := content.read(1 << 20):
                    to.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
            resources.append(
                {
                    "name": path.rpartition("/")[2],
                    "path": path,
                    "hash": f"sha256:{digest.hexdigest()}",
                    "bytes": size,
                }
            )
        about = {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "software": SOFTWARE,
            "created": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "resources": resources,
        }
        described = orjson.dumps(about, option=orjson.OPT_INDENT_2)
        package.writestr("datapackage.json", described)
        whole = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(described).hexdigest()}"}
        package.writestr("datapackage-digest.json", orjson.dumps(whole))


def _head(page: CapturedPage) -> bytes:
    try:
        phrase = HTTPStatus(page.status).phrase
    except ValueError:
        phrase = "Unknown"
    more = "".join(f"{_line(name)}: {_line(value)}\r\n" for name, value in page.headers.items())
    return (
        f"HTTP/1.1 {page.status} {phrase}\r\nContent-Type: {_line(page.content_type)}\r\n{more}"
        f"Content-Length: {len(page.body)}\r\n\r\n"
    ).encode()


def _request(url: str, page: CapturedPage) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    head = f"{page.method} {target} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
    if page.sent:
        head += f"Content-Type: {_line(page.sent_type)}\r\nContent-Length: {len(page.sent)}\r\n"
    return f"{head}\r\n".encode() + page.sent


def _address(url: str) -> str:
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), url)


def _line(value: str) -> str:
    """Return a value that cannot end its line."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", value)


def _digest(content: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()}"
