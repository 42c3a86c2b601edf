"""Blocks: the small groups in which duplicates of a home are looked for. Pure.

A home is in up to two: those with its house number in its ZIP code, and those with its house number in its cell of the
map. A twin that lies within 150 m is in the same ZIP block, in the same cell, or in one of the eight cells around it. A
home without a house number is in none: nothing could prove that two of them are the same.
"""

import math
from typing import Final

from forager.pipelines.listings.address import house_number

_CELL_DEGREES: Final = 0.003
"""At least 150 m anywhere in the USA, also from west to east."""


def zip_block(address: str | None, zip_code: str | None) -> str | None:
    """The block by ZIP code: `02139:40`."""
    number = house_number(address or "")
    return None if number is None or zip_code is None else f"{zip_code}:{number}"


def cell_block(address: str | None, latitude: float | None, longitude: float | None) -> str | None:
    """The block by place: the cell's row and column, and the house number."""
    number = house_number(address or "")
    if number is None or latitude is None or longitude is None:
        return None
    return f"{_cell(latitude)}:{_cell(longitude)}:{number}"


def nearby_cells(address: str | None, latitude: float | None, longitude: float | None) -> tuple[str, ...]:
    """The home's own cell block, and then the eight around it."""
    number = house_number(address or "")
    if number is None or latitude is None or longitude is None:
        return ()
    row, column = _cell(latitude), _cell(longitude)
    return tuple(f"{row + down}:{column + right}:{number}" for down, right in _AROUND)


def _cell(degrees: float) -> int:
    return math.floor(degrees / _CELL_DEGREES)


_AROUND: Final = ((0, 0), (-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
