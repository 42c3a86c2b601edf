"""Near duplicates: the same home on two portals, and homes that only look the same."""

import math
import random
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest

from bench.support.home_pairs import pairs, real_addresses
from forager.pipelines.listings.matching import OwningMarket, Stored, Thresholds, judge, merge, resolve, same
from forager.pipelines.listings.parse import ListingFound, read_rows
from forager.pipelines.listings.records import Listing, ListingSource, cell_block, nearby_cells, zip_block
from forager.sandbox import ListingsWorld
from forager.sandbox.listings import home_of
from forager.sandbox.listings import homes as listings_homes
from tests.support.shared_data import shared_data

NOW = datetime(2026, 11, 2, tzinfo=UTC)
HOME = Listing(
    listing_key="a:1", market_id="boston", title="Mill Lofts", address="40 Mill Road", city="Boston", state="MA",
    zip="02139", latitude=42.36, longitude=-71.1, rent_min=2000, rent_max=2400, beds_min=1, beds_max=2, baths_min=1,
    baths_max=1, amenities=["Elevator", "Parking"], units=[{"unit": "1"}, {"unit": "2"}],
)  # fmt: skip
NO_PLACE = "Neither their points nor their ZIP codes show that they are in one place."


def meet(one: Listing, two: Listing) -> bool:
    """Return whether the one is found in the blocks of the other."""
    own = {zip_block(two.address, two.zip), cell_block(two.address, two.latitude, two.longitude)} - {None}
    looked = {zip_block(one.address, one.zip), *nearby_cells(one.address, one.latitude, one.longitude)}
    return bool(own & looked)


def other(**changes: Any) -> Listing:
    return HOME.model_copy(update={"listing_key": "b:9", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "The Mill Lofts Apartments", "address": "40 Mill Rd."},
        {"address": "40 Mil Road", "latitude": 42.3604},
        {"rent_min": 2500, "rent_max": 2600},
        {"rent_min": None, "rent_max": None, "beds_min": None, "beds_max": None},
        {"latitude": None, "longitude": None},
        {"zip": None},
    ],
)
def test_another_spelling_of_a_listing_is_the_same_listing__LI_9(changes: Any) -> None:
    assert same(HOME, other(**changes)).same
    assert same(other(**changes), HOME).same
    assert meet(HOME, other(**changes))
    assert meet(other(**changes), HOME)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unit": "3B"}, "The units differ."),
        ({"address": "42 Mill Road"}, "The house numbers differ."),
        ({"address": "Mill Road"}, "One has no house number."),
        ({"address": "40 Oak Road"}, "The streets differ."),
        ({"state": "NH"}, "The states differ."),
        ({"latitude": 42.37}, "They are too far apart."),
        (
            {"latitude": None, "zip": "02140"},
            NO_PLACE,
        ),
        ({"rent_min": 4000, "rent_max": 4100}, "The rents differ."),
        ({"beds_min": 3, "beds_max": 4}, "The beds differ."),
        ({"baths_min": 2, "baths_max": 3}, "The baths differ."),
    ],
)
def test_listings_with_one_distinguishing_fact_are_never_merged__LI_9(changes: Any, reason: str) -> None:
    verdict = same(HOME, other(**changes))
    assert (verdict.same, verdict.reason) == (False, reason)
    assert not same(other(**changes), HOME).same


def test_different_units_of_one_building_are_never_merged__LI_9() -> None:
    units = [other(unit=unit) for unit in ("1A", "1B", "2A", "21", None)]
    assert not any(same(one, two).same for one, two in combinations(units, 2))
    assert same(other(unit="1A"), other(unit="apt 1-a")).same


@pytest.mark.parametrize(
    "pair", [("5 West 33rd St", "5 West 35rd St"), ("5 North Washington St", "5 South Washington St")]
)
def test_streets_that_differ_by_a_number_or_a_direction_are_two__LI_9(pair: tuple[str, str]) -> None:
    assert not same(other(address=pair[0]), other(address=pair[1])).same


def test_thresholds_are_settable_and_the_evidence_is_returned__LI_9() -> None:
    near = other(address="40 Mil Road", rent_min=2520, rent_max=2600)
    verdict = same(HOME, near)
    assert verdict.same
    assert (verdict.evidence["house_number"], verdict.evidence["rent"], verdict.evidence["metres"]) == ("40", 0.05, 0)
    assert not same(HOME, near, Thresholds(rent=0.04)).same
    assert not same(HOME, near, Thresholds(street=99)).same


def test_a_merge_keeps_the_richer_value_of_every_field__LI_9() -> None:
    seen = other(
        title=None, amenities=["Elevator"], phone="+1-617-555-0100", rent_min=1900, rent_max=None, beds_max=3,
        units=[{"unit": "2"}], market_id="cambridge",
    )  # fmt: skip
    both = merge(HOME, seen)
    assert (both.listing_key, both.market_id, both.title, both.phone) == ("a:1", "boston", "Mill Lofts", seen.phone)
    assert both.amenities == ["Elevator", "Parking"]
    assert (both.rent_min, both.rent_max) == (2000, 2400), "half a range is not richer than a whole one"
    assert (both.beds_min, both.beds_max) == (1, 3)
    assert both.units == [{"unit": "2"}], "units that are rented are not kept"


def test_the_twins_of_the_world_are_found_and_no_two_listings_are_merged__LI_9() -> None:
    world, moment = ListingsWorld(homes=120, twin_share=0.4, moving_share=0), NOW.timestamp()
    market = world.market("Boston, MA")
    shown = world.listings("Boston, MA", moment)
    rows = [
        listings_homes.api_row(home_of(world, market, each, moment), f"https://p.example/{n}", moment, with_rent=True)
        for n, each in enumerate(shown)
    ]
    homes = list(zip(shown, (found.listing for found in read_rows(rows, "boston", 3, NOW).found), strict=True))
    merged = {
        (one[0].home, two[0].home)
        for one, two in combinations(homes, 2)
        if meet(one[1], two[1]) and same(one[1], two[1]).same
    }
    assert merged == {(each.home, each.home) for each in shown if each.twin}
    assert len(merged) > 10


def test_pairs_of_real_addresses_are_distinguished__LI_9() -> None:
    """A smaller run of the benchmark `dedup`, with another seed: precision before recall."""
    made = pairs(real_addresses(shared_data("locations")), 600, seed=5)
    said = [(pair.same, meet(pair.one, pair.two) and judge(pair.one, pair.two, Thresholds()).same) for pair in made]
    right = sum(label and found for label, found in said)
    assert right / sum(found for _, found in said) >= 0.99
    assert right / sum(label for label, _ in said) >= 0.90


def test_a_listing_within_150_metres_is_always_in_a_cell_that_is_looked_at__LI_9() -> None:
    dice = random.Random(3)
    for _ in range(2_000):
        latitude, longitude = dice.uniform(19, 70), dice.uniform(-160, -67)
        north = dice.uniform(-150, 150)
        east = dice.choice((-1, 1)) * (150**2 - north**2) ** 0.5
        there = latitude + north / 111_195, longitude + east / (111_195 * math.cos(math.radians(latitude)))
        assert cell_block("40 Mill Road", *there) in nearby_cells("40 Mill Road", latitude, longitude)


@pytest.mark.parametrize("several_sources", [False, True])
def test_a_neighbours_scrape_leaves_the_stored_rate_of_a_listing_alone__LI_9(*, several_sources: bool) -> None:
    """The owner's new rate may be stored between this decision and its settlement."""
    stored_home = HOME.model_copy(update={"decay_rate": 3.0})
    stored = Stored(
        {"a:1": "a:1"},
        {"a:1": stored_home},
        {"a:1"} if several_sources else (),
        owners={"a:1": OwningMarket("boston", "Boston")},
    )
    shown = HOME.model_copy(update={"market_id": "cambridge", "decay_rate": 2.0, "confidence_base": 100.0})
    source = ListingSource(
        source_key="a:1", listing_key="a:1", market_id="cambridge", source="a", source_id="1", url="https://a.example/1"
    )
    resolved = resolve([ListingFound(shown, source)], stored, Thresholds(), "Cambridge")
    sighting = resolved.listings["a:1"]
    assert (sighting.market_id, sighting.decay_rate, sighting.confidence_base) == ("boston", None, 100.0)
    assert resolved.sources[0].market_id == "boston"
