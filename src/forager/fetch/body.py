"""A response body that is being received, stored in blocks.

One long buffer would have to be copied when it cannot grow in place, and would need twice the memory for that moment,
which a decompression bomb could exploit. Tiny pieces are merged, because each object costs far more than its bytes.
"""

BLOCK = 256 * 1024


class Body:
    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[bytearray] = [bytearray()]

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self._blocks[-1]) >= BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += piece

    def whole(self) -> bytes:
        return b"".join(self._blocks)
