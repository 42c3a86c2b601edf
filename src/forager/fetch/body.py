"""What has arrived of a body, in blocks.

One long buffer would have to be copied where it cannot grow in its place, and need twice the memory for that moment:
more than a bomb may cost us. Tiny pieces are gathered, since each on its own would cost far more than its bytes.
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
