"""The pieces of a body come together again, whatever their sizes."""

import pytest

from forager.fetch.body import BLOCK, Body


@pytest.mark.parametrize("sizes", [(), (0,), (1,) * 1_000, (BLOCK - 1, 1, 1), (BLOCK, BLOCK), (3 * BLOCK, 0, 7)])
def test_a_body_is_its_pieces_in_their_order(sizes: tuple[int, ...]) -> None:
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    body = Body()
    for piece in pieces:
        body.add(piece)
    assert body.size == sum(sizes)
    assert body.whole() == b"".join(pieces)


def test_no_buffer_grows_with_the_body() -> None:
    body = Body()
    for _ in range(64):
        body.add(bytes(BLOCK // 8))
    assert max(map(len, body._blocks)) == BLOCK
