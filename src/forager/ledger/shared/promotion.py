"""How many waiting tasks become ready in one turn, when their moment has come.

After an outage, or with plans that share a moment, a million may be due at once. Making all of them ready in one
transaction would stall everything for seconds, so each turn takes a page, shared between the lanes that have some.
What is left is as due in the next turn.
"""

from collections.abc import Iterator, Sequence

PAGE = 500
"""Tasks that one turn makes ready, over all lanes. It costs about as much as leasing them does."""
LEAST = 50
"""Each lane gets at least so many, as long as the page lasts: fewer would not be worth their statement."""


def promoted_pages(lanes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(lane, how many of its due tasks to take) for these lanes, which have some, in this order."""
    left = PAGE
    each = max(LEAST, -(-PAGE // max(1, len(lanes))))
    for lane in lanes:
        if left <= 0:
            return
        yield lane, min(each, left)
        left -= each
