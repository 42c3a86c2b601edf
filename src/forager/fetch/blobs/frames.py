"""The format of one stored page in a segment: a header with digest and lengths, the metadata, the compressed body.

A frame can be verified by itself: the checksum shows whether it was written completely, the digest whether it is the
requested page. Pure; a damaged frame is None, never an error.
"""

import hashlib
import struct
import zlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import zstandard

from forager.core.blobs import DIGEST_BYTES, SCHEME
from forager.core.http import Response

MAGIC = b"FGB1"
LEVEL = 1
"""zstd level: 44 µs for 20 KB. Level 3 saves another 3 % for a quarter more time."""
KEPT_HEADERS = {
    name.lower(): name for name in ("Content-Type", "Content-Language", "ETag", "Last-Modified", "Link", "X-Robots-Tag")
}
"""Response headers that are stored. No cookies: a stored page may be read by other jobs than the one that it was sent
to."""
_HEADER = struct.Struct(f"<4sI{DIGEST_BYTES}sIII")
HEADER_BYTES = _HEADER.size


class Header(NamedTuple):
    """The fixed part of a frame."""

    crc: int
    """Checksum of everything after it."""
    digest: bytes
    about: int
    """Bytes of the metadata."""
    packed: int
    size: int
    """Bytes of the uncompressed body."""

    @property
    def length(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_BYTES + self.about + self.packed


def digest_of(response: Response) -> bytes:
    """Return the digest of an answer's content, without its time: an unchanged page is stored once."""
    kind = _header(response, "content-type")
    told = f"{response.status} {response.rendered:d} {kind}\n{response.url}\n"
    made = hashlib.sha256(told.encode("utf-8", "surrogatepass"))
    made.update(response.body)
    return made.digest()[:DIGEST_BYTES]


def blob_url(digest: bytes) -> str:
    return SCHEME + digest.hex()


class Packer:
    """Makes frames. It reuses one compressor, so it belongs to one thread."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
        self._decompressor = zstandard.ZstdDecompressor()

    def pack(self, digest: bytes, response: Response) -> bytes:
        about = orjson.dumps(
            {
                "url": response.url,
                "status": response.status,
                "headers": {
                    KEPT_HEADERS[small]: str(value)
                    for name, value in response.headers.items()
                    if (small := name.lower()) in KEPT_HEADERS
                },
                "at": round(response.at.timestamp() * 1000),
                "looks": response.looks,
                "rendered": response.rendered,
            }
        )
        packed = self._compressor.compress(response.body)
        rest = struct.pack(f"<{DIGEST_BYTES}sIII", digest, len(about), len(packed), len(response.body))
        crc = zlib.crc32(packed, zlib.crc32(about, zlib.crc32(rest)))
        return b"".join((MAGIC, struct.pack("<I", crc), rest, about, packed))

    def unpack(self, digest: bytes, frame: bytes) -> Response | None:
        """Return the answer in a frame; None unless it is complete and has this digest."""
        header = read_header(frame)
        if header is None or header.digest != digest or not is_whole(header, frame):
            return None
        about = frame[HEADER_BYTES : HEADER_BYTES + header.about]
        packed = frame[HEADER_BYTES + header.about :]
        try:
            told = orjson.loads(about)
            body = self._decompressor.decompress(packed, max_output_size=header.size)
            response = _response(digest, told, body)
        except (ValueError, KeyError, TypeError, zstandard.ZstdError):
            return None
        return response if digest_of(response) == digest else None


def read_header(data: bytes) -> Header | None:
    """Return the header at the beginning of these bytes, or None."""
    if len(data) < HEADER_BYTES:
        return None
    magic, crc, digest, about, packed, size = _HEADER.unpack_from(data)
    return Header(crc, digest, about, packed, size) if magic == MAGIC else None


def is_whole(header: Header, frame: bytes) -> bool:
    return len(frame) == header.length and zlib.crc32(memoryview(frame)[len(MAGIC) + 4 :]) == header.crc


def _response(digest: bytes, told: dict[str, Any], body: bytes) -> Response:
    return Response(
        url=told["url"],
        status=told["status"],
        headers=told["headers"],
        body=body,
        at=datetime.fromtimestamp(told["at"] / 1000, UTC),
        elapsed_ms=0,
        looks=told["looks"],
        rendered=told["rendered"],
        blob=blob_url(digest),
    )


def _header(response: Response, name: str) -> str:
    return next((value for each, value in response.headers.items() if each.lower() == name), "")
