"""Where a ZIP code lies, roughly: state, an invented city, a point, a telephone area.

The states and the centres are real enough for a map; cities and area codes are invented. Never a source of reference
data: the ZIP table of the places pipeline is that.
"""

from bisect import bisect_right
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple


class Area(NamedTuple):
    state: str
    city: str
    latitude: float
    longitude: float
    phone_area: int


@lru_cache(maxsize=50_000)
def area_of(zip_code: str) -> Area:
    """The same for every seed: only the businesses on the land change. ZIPs with the same four digits share a city."""
    state, latitude, longitude = _STATES[bisect_right(_FIRST_PREFIXES, zip_code[:3]) - 1][1:]
    town = blake2b(zip_code[:4].encode(), digest_size=8).digest()
    spot = blake2b(zip_code.encode(), digest_size=4).digest()
    city = _CITY_FIRST[town[0] % len(_CITY_FIRST)] + _CITY_LAST[town[1] % len(_CITY_LAST)]
    return Area(
        state,
        city,
        latitude + (town[2] - 128) / 128 + (spot[0] - 128) / 4096,
        longitude + (town[3] - 128) / 128 + (spot[1] - 128) / 4096,
        201 + int.from_bytes(town[4:6], "big") % 780,
    )


def prefix_of(state: str) -> str:
    """The first three digits of some ZIP code of this state; of the last state for one that does not exist."""
    return next((row[0] for row in reversed(_STATES) if row[1] == state), _STATES[-1][0])


# First three-digit prefix of a run of ZIP codes, its state, and a point near that state's middle.
_STATES: tuple[tuple[str, str, float, float], ...] = (
    ("000", "NY", 40.8, -73.0),
    ("006", "PR", 18.2, -66.4),
    ("010", "MA", 42.3, -71.8),
    ("028", "RI", 41.7, -71.5),
    ("030", "NH", 43.6, -71.5),
    ("039", "ME", 45.2, -69.2),
    ("050", "VT", 44.1, -72.7),
    ("060", "CT", 41.6, -72.7),
    ("070", "NJ", 40.2, -74.6),
    ("100", "NY", 42.9, -75.5),
    ("150", "PA", 40.9, -77.8),
    ("197", "DE", 39.0, -75.5),
    ("200", "DC", 38.9, -77.0),
    ("206", "MD", 39.0, -76.8),
    ("220", "VA", 37.5, -78.8),
    ("247", "WV", 38.6, -80.6),
    ("270", "NC", 35.5, -79.4),
    ("290", "SC", 33.9, -80.9),
    ("300", "GA", 32.6, -83.4),
    ("320", "FL", 28.6, -82.4),
    ("350", "AL", 32.8, -86.8),
    ("370", "TN", 35.9, -86.4),
    ("386", "MS", 32.7, -89.7),
    ("398", "GA", 31.6, -84.2),
    ("400", "KY", 37.5, -85.3),
    ("430", "OH", 40.3, -82.8),
    ("460", "IN", 39.9, -86.3),
    ("480", "MI", 44.3, -85.4),
    ("500", "IA", 42.0, -93.5),
    ("530", "WI", 44.6, -89.9),
    ("550", "MN", 46.3, -94.3),
    ("570", "SD", 44.4, -100.2),
    ("580", "ND", 47.4, -100.5),
    ("590", "MT", 47.0, -109.6),
    ("600", "IL", 40.0, -89.2),
    ("630", "MO", 38.4, -92.5),
    ("660", "KS", 38.5, -98.4),
    ("680", "NE", 41.5, -99.8),
    ("700", "LA", 31.1, -92.0),
    ("716", "AR", 34.9, -92.4),
    ("730", "OK", 35.6, -97.5),
    ("750", "TX", 31.5, -99.3),
    ("800", "CO", 39.0, -105.5),
    ("820", "WY", 43.0, -107.5),
    ("832", "ID", 44.4, -114.6),
    ("840", "UT", 39.3, -111.7),
    ("850", "AZ", 34.3, -111.7),
    ("870", "NM", 34.4, -106.1),
    ("889", "NV", 39.3, -116.6),
    ("900", "CA", 37.2, -119.5),
    ("967", "HI", 20.3, -156.4),
    ("970", "OR", 43.9, -120.6),
    ("980", "WA", 47.4, -120.4),
    ("995", "AK", 64.0, -152.0),
)
_FIRST_PREFIXES = [row[0] for row in _STATES]
_CITY_FIRST = (
    "Mar",
    "Alder",
    "Quarry",
    "Cedar",
    "North",
    "Stone",
    "Hollow",
    "Pine",
    "Iron",
    "Clear",
    "Fox",
    "Haw",
    "Bright",
)
_CITY_LAST = (
    "low",
    "ville",
    " Falls",
    "ton",
    " Springs",
    "field",
    " Ridge",
    "port",
    " Creek",
    "bury",
    " Mills",
    "dale",
)
