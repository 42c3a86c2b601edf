"""The facts of a property: name, address, units and their rents at a moment. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from forager.sandbox.draw import chance
from forager.sandbox.geography import area_of, prefix_of
from forager.sandbox.listings.timeline import Timeline
from forager.sandbox.listings.world import Listing, ListingsWorld, Market

_FIRST = ("Foundry", "Quarry", "Harbor", "Maple", "Juniper", "Lantern", "Summit", "Orchard", "Mill", "Crescent", "Ives")
_SECOND = ("Row", "Lofts", "Court", "House", "Flats", "Commons", "Terrace", "Point", "Yard", "Square", "Place")
_STREETS = (
    ("Foundry", "Street", "St"), ("Oak", "Avenue", "Ave"), ("Mill", "Road", "Rd"), ("Lake", "Drive", "Dr"),
    ("Depot", "Lane", "Ln"), ("Jefferson", "Boulevard", "Blvd"), ("3rd", "Street", "St"), ("Park", "Place", "Pl"),
    ("Washington", "Street", "St"), ("Chestnut", "Court", "Ct"),
)  # fmt: skip
_NEIGHBOURS = ("East {}", "{} Heights", "North {}")
AMENITIES = ("Bike Storage", "Elevator", "Laundry Facilities", "Fitness Center", "Roof Deck", "Parking", "Dishwasher")


class Unit(NamedTuple):
    """A unit that is free at the moment."""

    key: str
    number: str
    beds: int
    baths: float
    area: int
    rent: int
    available: str
    """The day from which one can move in, `YYYY-MM-DD`."""


@dataclass(frozen=True, slots=True)
class Home:
    """A property as one portal shows it."""

    id: str
    title: str
    street: str
    city: str
    state: str
    zip: str
    latitude: float
    longitude: float
    phone: str
    beds: tuple[int, int]
    baths: tuple[int, int]
    area: tuple[int, int]
    units: tuple[Unit, ...]
    """Free units; often there are none."""
    amenities: tuple[str, ...]
    built: int
    rating: float | None

    @property
    def rents(self) -> tuple[int, int] | None:
        """The lowest and the highest rent of the free units; None if none is free."""
        rents = [unit.rent for unit in self.units]
        return (min(rents), max(rents)) if rents else None

    @property
    def slug(self) -> str:
        return "-".join(f"{self.title} {self.city} {self.state}".lower().replace("'", "").split())


def home_of(world: ListingsWorld, market: Market, listing: Listing, moment: float) -> Home:
    """The property at this moment; the second portal has another title, spelling and point for the same home."""
    drawn = world.draws(listing, "home")
    code = f"{prefix_of(market.state)}{market.number % 100:02}"
    area = area_of(code)
    name, long, short = _STREETS[drawn[0] % len(_STREETS)]
    number = 10 + (drawn[1] << 8 | drawn[2]) % 990
    first, second = _FIRST[drawn[3] % len(_FIRST)], _SECOND[drawn[4] % len(_SECOND)]
    city = _NEIGHBOURS[drawn[5] % 3].format(market.city) if drawn[6] < 16 else market.city
    shift = 0.00004 if listing.twin else 0.0
    largest = drawn[9] % 4
    return Home(
        world.listing_id(listing),
        f"The {first} {second} Apartments" if listing.twin else f"{first} {second}",
        f"{number} {name} {short}." if listing.twin else f"{number} {name} {long}",
        city,
        market.state,
        code,
        round(area.latitude + (drawn[7] - 128) / 2600 + shift, 6),
        round(area.longitude + (drawn[8] - 128) / 2600 - shift, 6),
        f"+1-{area.phone_area}-555-{(drawn[1] << 8 | drawn[2]) % 10_000:04}",
        (0 if drawn[10] % 3 == 0 else min(1, largest), max(1, largest)),
        (1, 1 + largest // 2),
        (420 + drawn[11], 700 + drawn[11] + 350 * largest),
        tuple(_units(world, listing, moment, drawn)),
        tuple(AMENITIES[(drawn[12] + n * 3) % len(AMENITIES)] for n in range(drawn[13] % 4 + 1)),
        1900 + drawn[14] % 120,
        None if drawn[15] % 3 == 0 else round(2 + drawn[15] % 30 / 10, 1),
    )


def _units(world: ListingsWorld, listing: Listing, moment: float, drawn: bytes) -> list[Unit]:
    """Units come and go on their own: a property can be listed with none that is free."""
    level = 900 + listing.market % 1500
    version = world.rent_version(listing, moment)
    units: list[Unit] = []
    for n in range(1 + drawn[12] % 6):
        key = f"{listing.market}/{listing.home}/{n}"
        line = Timeline(world.seed, key, moves=chance(world.seed, key, "unit") < 0.7)
        if not line.listed(moment):
            continue
        beds = (drawn[10] + n) % (drawn[9] % 4 + 1)
        moved = 0.94 + 0.12 * chance(world.seed, key, "rent", version)
        rent = round((level + 450 * beds + 40 * n) * moved / 5) * 5
        span = line.span(moment)
        begin = moment if span.begin < 0 else span.begin
        day = datetime.fromtimestamp(begin, UTC) + timedelta(days=7 + n * 5)
        area = 420 + drawn[11] + 330 * beds
        units.append(
            Unit(f"u{n}{drawn[3]:02x}", f"{n + 1}0{drawn[4] % 10}", beds, 1 + beds // 2, area, rent, f"{day:%Y-%m-%d}")
        )
    return units
