"""A set of change numbers as a bitmap: these are dense, so ten million of them take little more than a megabyte."""

from collections.abc import Iterable, Sequence


class NumberSet:
    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        place = number >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self._bits[place] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))


def ranges_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the numbers as (first, last) of each run without a gap, in order."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def numbers_in(ranges: Iterable[Sequence[int]]) -> Iterable[int]:
    """The reverse of `ranges_of`."""
    for first, last in ranges:
        yield from range(first, last + 1)
