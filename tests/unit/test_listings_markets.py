"""The markets that come with the install, and their tiers."""

import re
from collections import Counter

import pytest

from forager.extract.text.locations import state_code
from forager.pipelines.listings.tasks import INITIAL_MARKETS, MAX_LISTINGS, TIERS, TierName

NAMES = {
    "hot": "New York City, Boston, Washington DC, Philadelphia",
    "standard": "Pittsburgh, Baltimore, Newark, Jersey City, Cambridge, Arlington VA",
    "cool": "Bryn Mawr, Hoboken, Stamford, New Haven, Providence, Richmond, Charlotte, Raleigh, Hartford",
}


@pytest.mark.parametrize("tier", ["hot", "standard", "cool"])
def test_each_tier_comes_with_its_cities__LI_2(tier: TierName) -> None:
    assert [each.display_name for each in INITIAL_MARKETS if each.tier == tier] == NAMES[tier].split(", ")


def test_there_are_19_markets_with_an_id_of_their_own__LI_2() -> None:
    assert len(INITIAL_MARKETS) == 19
    assert max(Counter(each.id for each in INITIAL_MARKETS).values()) == 1
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each.id) for each in INITIAL_MARKETS)
    assert INITIAL_MARKETS[0].id == "nyc"


def test_every_market_has_a_real_state_and_searches_by_it__LI_2() -> None:
    assert all(state_code(each.state, "US") == each.state for each in INITIAL_MARKETS)
    by_id = {each.id: each.search for each in INITIAL_MARKETS}
    assert (by_id["washington-dc"], by_id["arlington-va"]) == ("Washington, DC", "Arlington, VA")
    assert (by_id["nyc"], by_id["bryn-mawr"]) == ("New York, NY", "Bryn Mawr, PA")


def test_a_tier_sets_how_often_a_market_is_scraped_and_how_fast_its_listings_age__LI_1__LI_11() -> None:
    assert {name: tuple(tier) for name, tier in TIERS.items()} == {"hot": (6, 3), "standard": (12, 2), "cool": (24, 1)}
    assert MAX_LISTINGS == 100
