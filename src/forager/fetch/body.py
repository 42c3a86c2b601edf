"""A response body that is being received.

A bytearray or a list of parts would hold a body twice for a moment, when its bytes are put together: a decompression
bomb could exploit that. `BytesIO` grows by remapping pages and gives its buffer away without a copy, and it merges tiny
pieces, of which each as an object of its own would cost far more than its bytes.
"""

from io import BytesIO


class Body:
    def __init__(self) -> None:
        self.size = 0
        self._buffer = BytesIO()

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._buffer.write(piece)

    def whole(self) -> bytes:
        return self._buffer.getvalue()
