"""Long arrays as parameters. The driver looks at each element of a list several times; one text it sends as it is.

A statement that takes a `numbers` text casts it itself: `$1::text::bigint[]`.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def numbers(values: Iterable[int]) -> str:
    """An array of numbers, none of them NULL, as PostgreSQL writes it."""
    return f"{{{','.join(map(str, values))}}}"


def unless_all(usual: T, values: Sequence[T]) -> Sequence[T] | None:
    """None if every value is the usual one: `unnest` then gives NULL for each, which the statement reads as that."""
    return None if values.count(usual) == len(values) else values
