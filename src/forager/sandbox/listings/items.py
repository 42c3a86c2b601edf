"""Rows of the apartments actors, from the facts of a property: the API variant, its older sibling, and bad ones. Pure.

A field that the actor does not have for a property is left out. Ranges are texts, rents may be missing, lists repeat
themselves: as the real rows are.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from forager.sandbox.listings.homes import Home, Unit

Row = dict[str, Any]
_STATES = {
    "NY": "New York", "MA": "Massachusetts", "DC": "District of Columbia", "PA": "Pennsylvania", "MD": "Maryland",
    "NJ": "New Jersey", "VA": "Virginia", "CT": "Connecticut", "RI": "Rhode Island", "NC": "North Carolina",
    "IL": "Illinois", "CO": "Colorado", "TX": "Texas", "CA": "California", "AZ": "Arizona",
}  # fmt: skip


def api_row(home: Home, url: str, moment: float, *, with_rent: bool) -> Row:
    """A row of `epctex~apartments-scraper-api`. Since May 2026 the real one often has no `rent`."""
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


def old_row(home: Home, url: str, moment: float, *, with_rent: bool) -> Row:
    """A row of the older `epctex~apartments-scraper`: another spelling, state names in full, no `rentals`."""
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
    """What an actor pushes for a user of its free plan; it is billed all the same."""
    return {"demo": True}


def bad_row(row: Row, number: int) -> Row:
    """A row that no reader can use, in one of several ways by its number."""
    return _SPOILS[number % len(_SPOILS)](dict(row))


def _row(home: Home, url: str, moment: float) -> Row:
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


def _details(home: Home) -> list[Row]:
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


def _empty_model(home: Home) -> Row:
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
