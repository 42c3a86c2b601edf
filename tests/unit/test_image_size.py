"""The size of a picture is read from its first bytes, and no file breaks the reader."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.extract.image_size import image_size

PNG = b"\x89PNG\r\n\x1a\n" + pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + pack("<HH", 320, 200)
JPEG = b"\xff\xd8\xff\xe0" + pack(">H", 4) + b"ab" + b"\xff\xff\xc0" + pack(">HBHH", 11, 8, 600, 800)
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (1023).to_bytes(3, "little") + (767).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 4 + b"\x2f" + pack("<I", 99 | 49 << 14)
VP8 = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + pack("<HH", 176, 144)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (GIF, (320, 200)),
        (JPEG, (800, 600)),
        (VP8X, (1024, 768)),
        (VP8L, (100, 50)),
        (VP8, (176, 144)),
        (b"<html>", None),
        (b"", None),
        (GIF.replace(pack("<HH", 320, 200), pack("<HH", 0, 9)), None),
    ],
)
def test_the_size_of_a_picture_is_read_from_its_first_bytes__PR_13(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


@given(st.sampled_from([PNG, GIF, JPEG, VP8X, VP8L, VP8]), st.integers(0, 40), st.binary(max_size=30))
def test_no_damaged_file_breaks_the_reader__S16(data: bytes, cut: int, tail: bytes) -> None:
    image_size(data[:cut] + tail)
