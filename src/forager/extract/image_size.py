"""Width and height of a picture from the first bytes of its file: PNG, JPEG, GIF, WebP. Pure.

Nothing is decoded, so a hostile file costs nothing. A file of another type, or a damaged one, has no size.
"""

from struct import error as damaged
from struct import unpack_from

_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
"""JPEG segments that hold the size."""


def image_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels, or None."""
    try:
        size = _size(data)
    except (damaged, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def _size(data: bytes) -> tuple[int, int] | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = unpack_from(">II", data, 16)
        return width, height
    if data.startswith((b"GIF87a", b"GIF89a")):
        width, height = unpack_from("<HH", data, 6)
        return width, height
    if data.startswith(b"\xff\xd8"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place < len(data):
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker == 0xFF:  # a fill byte
            place += 1
            continue
        if marker in _FRAMES:
            height, width = unpack_from(">HH", data, place + 5)
            return width, height
        place += 2 + unpack_from(">H", data, place + 2)[0]
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        (bits,) = unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
