"""The facts of a property: name, address, units and their rents at a moment. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from forager.sandbox.listings.world import ListingsWorld, SimulatedListing, SimulatedMarket, Timeline
from forager.sandbox.world import area_of, chance, prefix_of

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
class SimulatedHome:
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
    """Free units; often an empty list."""
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


def home_of(world: ListingsWorld, market: SimulatedMarket, listing: SimulatedListing, moment: float) -> SimulatedHome:
    """Return the property at this moment; the second portal has another title, spelling and point for the same home."""
    drawn = world.draws(listing, "home")
    code = f"{prefix_of(market.state)}{market.number % 100:02}"
    area = area_of(code)
    name, long, short = _STREETS[drawn[0] % len(_STREETS)]
    number = 10 + (drawn[1] << 8 | drawn[2]) % 990
    first, second = _FIRST[drawn[3] % len(_FIRST)], _SECOND[drawn[4] % len(_SECOND)]
    city = _NEIGHBOURS[drawn[5] % 3].format(market.city) if drawn[6] < 16 else market.city
    shift = 0.00004 if listing.twin else 0.0
    largest = drawn[9] % 4
    return SimulatedHome(
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


def _units(world: ListingsWorld, listing: SimulatedListing, moment: float, drawn: bytes) -> list[Unit]:
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


# Rows of the apartments actors, from the facts of a property: the API variant, its older sibling, and bad ones. Pure.
#
# A field that the actor does not have for a property is left out. Ranges are texts, rents may be missing, lists repeat
# themselves: as the real rows are.


Row = dict[str, Any]
_STATES = {
    "NY": "New York", "MA": "Massachusetts", "DC": "District of Columbia", "PA": "Pennsylvania", "MD": "Maryland",
    "NJ": "New Jersey", "VA": "Virginia", "CT": "Connecticut", "RI": "Rhode Island", "NC": "North Carolina",
    "IL": "Illinois", "CO": "Colorado", "TX": "Texas", "CA": "California", "AZ": "Arizona",
}  # fmt: skip


def api_row(home: SimulatedHome, url: str, moment: float, *, with_rent: bool) -> Row:
    """Return a row of `epctex~apartments-scraper-api`. Since May 2026 the real one often has no `rent`."""
    row = _row(home, url, moment)
    row["location"] = {
        "fullAddress": f"{home.street}, {home.city}, {home.state} {home.zip}",
        "streetAddress": home.street,
        "city": home.city,
        "state": home.state,
        "postalCode": home.zip,
    }
    if with_rent and home.rents is not None:
        row["rent"] = {"min": home.rents[0], "max": home.rents[1]}
    row["rentals"] = [_rental(unit, masked=home.built % 4 == 0) for unit in home.units]
    row["images"] = []
    return row


def old_row(home: SimulatedHome, url: str, moment: float, *, with_rent: bool) -> Row:
    """Return a row of the older `epctex~apartments-scraper`: another spelling, state names in full, no `rentals`."""
    row = _row(home, url, moment)
    row["location"] = {
        "fullAddress": f"{home.street} {home.city} {home.state} {home.zip}",
        "streedAddress": home.street,
        "city": f"{home.city}\n" if home.built % 9 == 0 else home.city,
        "state": _STATES.get(home.state, home.state),
        "postalCode": home.zip,
        "neighborhood": f"{home.city} Center",
    }
    if with_rent and home.rents is not None:
        row["rent"] = {"min": home.rents[0], "max": home.rents[1]}
    row["models"] = [_model(unit) for unit in home.units] or [_empty_model(home)]
    row["photos"] = [f"https://photos.example/{home.id}/{n}.jpg" for n in range(3)] + ["https://photos.example/map.png"]
    return row


def placeholder_row() -> Row:
    """Return the row that an actor pushes for a user of its free plan; it is billed like any other."""
    return {"demo": True}


def bad_row(row: Row, number: int) -> Row:
    """Return a row that no reader can use, in one of several ways by its number."""
    return _SPOILS[number % len(_SPOILS)](dict(row))


def _row(home: SimulatedHome, url: str, moment: float) -> Row:
    hours = int(moment // 3600) % 23 + 1
    return {
        "id": home.id,
        "propertyName": home.title,
        "url": url,
        "breadcrumbs": ["Home", home.state, home.city],
        "coordinates": {"latitude": home.latitude, "longitude": home.longitude},
        "rating": home.rating,
        "isVerified": home.built % 2 == 0,
        "beds": _range(home.beds, " bd", zero="Studio"),
        "baths": _range(home.baths, " ba"),
        "sqft": _range(home.area, " sq ft"),
        "amenities": [{"title": "Community Amenities", "value": [*home.amenities, home.amenities[0]]}],
        "fees": [{"title": "Details", "policies": [{"header": "Property", "values": _details(home)}]}],
        "contact": {"phone": home.phone, "name": "" if home.built % 3 == 0 else f"{home.title} Leasing"},
        "scores": {"walkScore": home.built % 100, "transitScore": home.built % 90},
        "description": f"{home.title} is in   {home.city}.\n\n  Built in {home.built}.",
        "lastUpdated": f"{hours} hours ago",
        "scrapedAt": datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }


def _details(home: SimulatedHome) -> list[Row]:
    return [
        {"key": f"Built in {home.built}", "value": ""},
        {"key": f"{home.built % 40 + 4} units/3 stories", "value": ""},
    ]


def _range(values: tuple[int, int], unit: str, zero: str = "0") -> str:
    low, high = (zero if value == 0 else f"{value:,}" for value in values)
    return f"{low}{unit}" if low == high and low != zero else f"{low} - {high}{unit}"


def _rental(unit: Unit, *, masked: bool) -> Row:
    return {
        "key": unit.key,
        "unitNumber": f"N/A-{unit.number}" if masked else unit.number,
        "beds": unit.beds,
        "baths": unit.baths,
        "basePrice": unit.rent,
        "totalPrice": unit.rent + 52,
        "squareFeet": unit.area,
        "availableDate": unit.available,
    }


def _model(unit: Unit) -> Row:
    return {
        "modelName": f"Plan {unit.beds}{unit.number[0]}",
        "rentLabel": f"${unit.rent:,} – ${unit.rent + 100:,}",
        "details": [f"{unit.beds} Beds", f"{unit.baths} Bath", f"{unit.area:,} Sq Ft"],
        "leaseOptions": "12 Month\t\n Lease",
        "availability": "1 Available unit",
        "units": [
            {
                "type": f"Unit {unit.number}",
                "price": f"${unit.rent:,}",
                "sqft": f"{unit.area:,}",
                "availability": "Soon",
            }
        ],
    }


def _empty_model(home: SimulatedHome) -> Row:
    return {
        "modelName": f"Plan {home.beds[1]}",
        "rentLabel": "Call for Rent",
        "details": [],
        "availability": "",
        "units": [],
    }


def _without(*names: str) -> Callable[[Row], Row]:
    return lambda row: {name: value for name, value in row.items() if name not in names}


_SPOILS: tuple[Callable[[Row], Row], ...] = (
    _without("id", "url"),
    _without("location"),
    lambda row: {**row, "propertyName": "", "location": {}},
    lambda row: {**row, "coordinates": {"latitude": 912.5, "longitude": -4000}},
    lambda row: {**row, "rent": {"min": 9000, "max": -1}, "rentals": [{"basePrice": "soon"}], "models": "none"},
)
