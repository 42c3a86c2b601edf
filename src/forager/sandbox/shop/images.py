"""Pictures of products: small valid PNG files, different for each, some with the same bytes. Pure."""

import zlib
from struct import pack

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(width: int, height: int, shade: int, tail: int = 0) -> bytes:
    """A grey picture; `tail` bytes follow its end, which makes it big without being slow to make."""
    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\x00" + bytes((shade % 256,)) * width) * height
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 1)) + _chunk(b"IEND", b"")
    return _SIGNATURE + parts + b"\x00" * tail


def product_image(number: int, place: int, *, small: bool = False) -> bytes:
    """The picture of a product. The last-but-one of every seventh product is the same file: a logo."""
    if place == 2 and number % 7 == 0:
        return png(80, 60, 200)
    width, height = 240 + number % 97, 180 + (number * 7 + place) % 61
    return png(width // 4, height // 4, number + place) if small else png(width, height, number * 3 + place * 50)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))
