"""Rows of both apartments actors, made by the sandbox's world, as listings and rejects."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from forager.core.freshness import SEEN
from forager.ledger.schema.record_tables import record_tables
from forager.pipelines.listings.parse import DatasetBatch, read_rows
from forager.pipelines.listings.records import Listing, ListingSource
from forager.sandbox import ListingsWorld
from forager.sandbox.listings import home_of, homes
from forager.sandbox.listings.homes import SimulatedHome

NOW = datetime(2026, 11, 2, tzinfo=UTC)
WORLD = ListingsWorld(homes=100)
MARKET = WORLD.market("Boston, MA")
HOMES = [home_of(WORLD, MARKET, listing, NOW.timestamp()) for listing in WORLD.listings("Boston, MA", NOW.timestamp())]

ROW: dict[str, Any] = {
    "id": "q7r2kxd",
    "propertyName": "Foundry  Row",
    "url": "https://www.apartments.com/foundry-row-marlow-falls-il/q7r2kxd/",
    "location": {
        "fullAddress": "40 Foundry Row, Marlow Falls, IL 60999",
        "streetAddress": "40 Foundry Row",
        "city": "Marlow Falls",
        "state": "IL",
        "postalCode": "60999",
    },
    "coordinates": {"latitude": 41.2188, "longitude": -88.4071},
    "beds": "Studio - 2 bd",
    "baths": "1 - 2 ba",
    "sqft": "480 - 1,105 sq ft",
    "rent": {"min": 1285, "max": 2140},
    "rentals": [
        {"key": "u81", "unitNumber": "N/A-204", "beds": 1, "baths": 1, "basePrice": 1460, "availableDate": "2031-05-01"}
    ],
    "amenities": [{"title": "Community", "value": ["Bike Storage", "Elevator", "Bike Storage"]}],
    "contact": {"phone": "+1-815-555-0142", "name": ""},
}


def read(*rows: Any) -> DatasetBatch:
    return read_rows(rows, "boston", 3, NOW)


def listing(**changes: Any) -> Listing:
    batch = read({**ROW, **changes})
    assert not batch.rejected
    return batch.found[0].listing


def url_of(home: SimulatedHome) -> str:
    return f"https://www.apartments.com/{home.slug}/{home.id}/"


def test_a_row_becomes_a_listing_and_its_source__LI_7() -> None:
    found = read(ROW).found[0]
    assert found.source == ListingSource(
        source_key="apartments.com:q7r2kxd",
        listing_key="apartments.com:q7r2kxd",
        market_id="boston",
        source="apartments.com",
        source_id="q7r2kxd",
        url=ROW["url"],
    )
    assert found.listing == Listing(
        listing_key="apartments.com:q7r2kxd",
        market_id="boston",
        title="Foundry Row",
        address="40 Foundry Row",
        city="Marlow Falls",
        state="IL",
        zip="60999",
        latitude=41.2188,
        longitude=-88.4071,
        rent_min=1285,
        rent_max=2140,
        beds_min=0,
        beds_max=2,
        baths_min=1,
        baths_max=2,
        area_min=480,
        area_max=1105,
        amenities=["Bike Storage", "Elevator"],
        phone="+1-815-555-0142",
        available_date=date(2031, 5, 1),
        units=[{"key": "u81", "beds": 1, "baths": 1, "rent": 1460, "available": "2031-05-01"}],
        source_url=ROW["url"],
        confidence_base=SEEN,
        confidence_updated_at=NOW,
        decay_rate=3,
    )
    assert record_tables([Listing, ListingSource])


@pytest.mark.parametrize("make", [homes.api_row, homes.old_row])
@pytest.mark.parametrize("with_rent", [True, False])
def test_every_listing_of_the_world_is_read_as_it_is__LI_7(make: Any, with_rent: bool) -> None:
    rows = [make(home, url_of(home), NOW.timestamp(), with_rent=with_rent) for home in HOMES]
    batch = read(*rows)
    assert not batch.rejected
    assert len(batch.found) == len(HOMES) > 50
    for home, found in zip(HOMES, batch.found, strict=True):
        read_home = found.listing
        assert (read_home.address, read_home.city, read_home.state) == (home.street, home.city, home.state)
        assert (read_home.beds_min, read_home.beds_max) == home.beds
        assert (read_home.baths_min, read_home.baths_max) == home.baths
        assert (read_home.area_min, read_home.area_max) == home.area
        assert (read_home.latitude, read_home.longitude) == (home.latitude, home.longitude)
        assert (read_home.rent_min, read_home.rent_max) == (home.rents or (None, None))
        assert [unit["rent"] for unit in read_home.units or ()] == [unit.rent for unit in home.units]
        assert read_home.title == home.title
        assert set(read_home.amenities or ()) == set(home.amenities)
        assert not any("map" in photo for photo in read_home.photos or ())


def test_five_bad_rows_of_100_are_rejected_with_their_reasons_and_95_are_read__LI_8() -> None:
    rows = [homes.api_row(HOMES[0], url_of(HOMES[0]), NOW.timestamp(), with_rent=True) for _ in range(100)]
    rows = [{**row, "id": f"home{number}"} for number, row in enumerate(rows)]
    rows = [homes.bad_row(row, n // 20) if n % 20 == 19 else row for n, row in enumerate(rows)]
    batch = read(*rows)
    assert len(batch.found) == 95
    assert [reject.reason for reject in batch.rejected] == [
        "The row has no URL of a page.",
        "The row has no street address.",
        "The row has no street address.",
        "The row's coordinates (912.5, -4000.0) are not on Earth.",
        "The row's rent from 9000.0 to -1.0 is impossible.",
    ]
    assert [reject.key for reject in batch.rejected] == [None, *(f"apartments.com:home{n}" for n in (39, 59, 79, 99))]
    assert batch.rejected[0].payload == rows[19]


@pytest.mark.parametrize("raw", [{}, homes.placeholder_row(), None, "text", 7, []])
def test_a_row_that_is_no_listing_is_rejected__LI_8(raw: Any) -> None:
    batch = read(raw)
    assert not batch.found
    assert batch.rejected[0].payload == raw
    assert batch.rejected[0].key is None


@pytest.mark.parametrize("rent", ["$" + "9" * 30, "$" + "9" * 400])
def test_a_number_that_no_column_holds_costs_its_row_only__LI_8(rent: str) -> None:
    batch = read({**ROW, "id": "absurd", "rent": {"min": rent, "max": rent}}, {**ROW, "photos": ["https://[x/a.jpg"]})
    assert [(reject.key, "impossible" in reject.reason) for reject in batch.rejected] == [
        ("apartments.com:absurd", True)
    ]
    assert [each.listing.photos for each in batch.found] == [["https://[x/a.jpg"]]


def test_a_property_that_two_rows_show_is_read_once__LI_9() -> None:
    batch = read(ROW, ROW)
    assert (len(batch.found), batch.repeated) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rent": {"min": 0, "max": 0}}, (1460, 1460)),
        ({"rent": "Call for Rent"}, (1460, 1460)),
        ({"rent": {"min": 1300}}, (1300, 1300)),
        ({"rent": None, "rentals": [{"basePrice": 0, "totalPrice": 1512}]}, (1512, 1512)),
        ({"rent": None, "rentals": [], "models": [{"rentLabel": "$1,100 – $1,200"}]}, (1100, 1200)),
        (
            {"rent": None, "rentals": None, "models": [{"rentLabel": "$900 – $1,200", "units": [{"price": "$1,100"}]}]},
            (1100, 1100),
        ),
        ({"rent": None, "rentals": [], "models": [{"rentLabel": "Call for Rent"}]}, (None, None)),
        ({"rent": None, "rentals": "none", "models": "none"}, (None, None)),
    ],
)
def test_rent_comes_from_rent_else_rentals_else_models__LI_7(changes: Any, expected: Any) -> None:
    found = listing(**changes)
    assert (found.rent_min, found.rent_max) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ({"city": "$1,200\n"}, ("40 Foundry Row", None, "Marlow Falls", "IL")),
        ({"city": "$1,200", "fullAddress": "40 Foundry Row Marlow Falls"}, ("40 Foundry Row", None, None, "IL")),
        ({"state": "Illinois"}, ("40 Foundry Row", None, "Marlow Falls", "IL")),
        ({"streetAddress": "40 Foundry Row, Apt 3B"}, ("40 Foundry Row", "3B", "Marlow Falls", "IL")),
        ({"streetAddress": None}, ("40 Foundry Row", None, "Marlow Falls", "IL")),
    ],
)
def test_the_address_is_read_past_its_junk__LI_7(location: Any, expected: Any) -> None:
    found = listing(location={**ROW["location"], **location})
    assert (found.address, found.unit, found.city, found.state) == expected


def test_an_id_that_is_left_out_is_the_end_of_the_url__LI_7() -> None:
    assert listing(id=None).listing_key == "apartments.com:q7r2kxd"
