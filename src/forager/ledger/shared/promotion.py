"""How many waiting tasks become ready in one transaction, once they are due.

After an outage, or with plans that share a moment, a million may be due at once. Making all of them ready in one
transaction would stall everything for seconds, so each one takes a page, shared between the lanes that have some. The
rest follows in the next transaction.
"""

from collections.abc import Iterator, Sequence

PAGE = 500
"""Tasks that one transaction makes ready, over all lanes. This costs about as much as leasing them."""
LEAST = 50
"""Minimum per lane, as long as the page lasts: fewer would not be worth a statement."""


def promoted_pages(lanes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (lane, number of its due tasks to take) for these lanes, in this order. Each has some."""
    left = PAGE
    each = max(LEAST, -(-PAGE // max(1, len(lanes))))
    for lane in lanes:
        if left <= 0:
            return
        yield lane, min(each, left)
        left -= each
