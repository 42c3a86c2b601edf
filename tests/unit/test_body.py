"""The pieces of a body come together again, whatever their sizes."""

import tracemalloc

import pytest

from forager.fetch.http.fetcher import BodyBlocks

BLOCK = 256 * 1024


@pytest.mark.parametrize("sizes", [(), (0,), (1,) * 1_000, (BLOCK - 1, 1, 1), (BLOCK, BLOCK), (3 * BLOCK, 0, 7)])
def test_a_body_is_its_pieces_in_their_order(sizes: tuple[int, ...]) -> None:
    pieces = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    body = BodyBlocks()
    for piece in pieces:
        body.add(piece)
    assert body.size == sum(sizes)
    assert body.whole() == b"".join(pieces)


def test_a_body_is_held_once() -> None:
    tracemalloc.start()
    try:
        body = BodyBlocks()
        for _ in range(128):
            body.add(bytes(BLOCK))
        whole = body.whole()
        assert tracemalloc.get_traced_memory()[1] <= 1.3 * len(whole)  # a part is allocated ahead
    finally:
        tracemalloc.stop()
