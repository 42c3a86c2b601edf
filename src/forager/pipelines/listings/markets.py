"""Markets: the cities that are scraped, how often, and how fast their listings age. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

TierName = Literal["hot", "standard", "cool"]


class Tier(NamedTuple):
    """How fast a market moves."""

    frequency_hours: int
    """Hours between two scrapes, unless the market has its own."""
    decay_rate: int
    """Points of confidence that a listing loses per hour."""


TIERS: Final[Mapping[TierName, Tier]] = MappingProxyType(
    {"hot": Tier(6, 3), "standard": Tier(12, 2), "cool": Tier(24, 1)}
)


def override_of(hours: int | None, tier: TierName) -> int | None:
    """Return the hours between two scrapes that a market keeps when its tier changes; None if the tier decides.

    The tier's own number is no override, so that a client may send back what it has read.
    """
    return None if hours == TIERS[tier].frequency_hours else hours


MAX_LISTINGS: Final = 100
"""Listings that one scrape of a market asks for, unless the market has its own limit."""


@dataclass(frozen=True, slots=True)
class Market:
    """A city as it comes with the install."""

    id: str
    display_name: str
    city: str
    """The city's name in the search of the source."""
    state: str
    """Two letters."""
    tier: TierName

    @property
    def search(self) -> str:
        """The location words that the source searches for: "Boston, MA"."""
        return f"{self.city}, {self.state}"


INITIAL_MARKETS: Final = (
    Market("nyc", "New York City", "New York", "NY", "hot"),
    Market("boston", "Boston", "Boston", "MA", "hot"),
    Market("washington-dc", "Washington DC", "Washington", "DC", "hot"),
    Market("philadelphia", "Philadelphia", "Philadelphia", "PA", "hot"),
    Market("pittsburgh", "Pittsburgh", "Pittsburgh", "PA", "standard"),
    Market("baltimore", "Baltimore", "Baltimore", "MD", "standard"),
    Market("newark", "Newark", "Newark", "NJ", "standard"),
    Market("jersey-city", "Jersey City", "Jersey City", "NJ", "standard"),
    Market("cambridge", "Cambridge", "Cambridge", "MA", "standard"),
    Market("arlington-va", "Arlington VA", "Arlington", "VA", "standard"),
    Market("bryn-mawr", "Bryn Mawr", "Bryn Mawr", "PA", "cool"),
    Market("hoboken", "Hoboken", "Hoboken", "NJ", "cool"),
    Market("stamford", "Stamford", "Stamford", "CT", "cool"),
    Market("new-haven", "New Haven", "New Haven", "CT", "cool"),
    Market("providence", "Providence", "Providence", "RI", "cool"),
    Market("richmond", "Richmond", "Richmond", "VA", "cool"),
    Market("charlotte", "Charlotte", "Charlotte", "NC", "cool"),
    Market("raleigh", "Raleigh", "Raleigh", "NC", "cool"),
    Market("hartford", "Hartford", "Hartford", "CT", "cool"),
)
"""Stored at the first start. Later ones are rows like these: nothing in the code names a city again."""
