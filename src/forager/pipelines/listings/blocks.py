"""Blocks: the small groups in which duplicates of a home are looked for. Pure.

A home is in up to two: those with its house number in its ZIP code, and those with its house number in its cell of the
map. A twin that lies within 150 m is in the same ZIP block, or in one of the few cells that 150 m can reach. A home
without a house number is in none: nothing could prove that two of them are the same.
"""

import math
from typing import Final

from forager.pipelines.listings.address import house_number

_CELL_DEGREES: Final = 0.003
"""Some 330 m from south to north."""
_REACH_DEGREES: Final = 0.00136
"""150 m from south to north, and a little more."""


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
    """The cell blocks that a home within 150 m can be in: the cells that this square touches, mostly one to four."""
    number = house_number(address or "")
    if number is None or latitude is None or longitude is None:
        return ()
    wide = _REACH_DEGREES / max(0.01, math.cos(math.radians(latitude)))
    rows = range(_cell(latitude - _REACH_DEGREES), _cell(latitude + _REACH_DEGREES) + 1)
    columns = range(_cell(longitude - wide), _cell(longitude + wide) + 1)
    return tuple(f"{row}:{column}:{number}" for row in rows for column in columns)


def _cell(degrees: float) -> int:
    return math.floor(degrees / _CELL_DEGREES)
