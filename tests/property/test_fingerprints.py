"""The values that a browser reports about itself, over any randomness and any region."""

import re
from datetime import timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from forager.fetch.fingerprints import AGENTS, DELAY, LISTED, NEUTRAL, REGIONS, Fingerprints, action_delay

SEEDS = st.integers(0, 2**32)
ANY_REGION = st.one_of(st.none(), st.sampled_from(sorted(REGIONS)), st.text(max_size=3))


# Feature: scraping-microservices, Property 14: Fingerprint attributes within valid ranges
@settings(max_examples=100)
@given(seed=SEEDS, region=ANY_REGION)
def test_a_fingerprint_is_of_the_list_and_in_range__SC_P14(seed: int, region: str | None) -> None:
    made = Fingerprints(Random(seed)).next(region)
    assert made.user_agent in {agent.user_agent for agent in AGENTS}
    assert 1280 <= made.viewport[0] <= 1920
    assert 720 <= made.viewport[1] <= 1080


# Feature: scraping-microservices, Property 15: Fingerprint geo-consistency with proxy region
@settings(max_examples=100)
@given(seed=SEEDS, code=st.sampled_from(sorted(REGIONS)), lower=st.booleans())
def test_time_zone_language_and_position_are_the_regions__SC_P15(seed: int, code: str, lower: bool) -> None:
    made = Fingerprints(Random(seed)).next(code.lower() if lower else code)
    region = REGIONS[code]
    assert made.language in region.languages
    assert made.language.endswith(f"-{code}")
    assert made.geolocation is not None
    near = [
        place
        for place in region.places
        if abs(place.latitude - made.geolocation[0]) < 0.03 and abs(place.longitude - made.geolocation[1]) < 0.03
    ]
    assert [place.timezone for place in near] == [made.timezone]


# Feature: scraping-microservices, Property 16: Fingerprint rotation across sessions
@settings(max_examples=100)
@given(
    seed=SEEDS,
    # Often the same region again and again: there only little can differ, and a moved position is not enough.
    regions=st.lists(ANY_REGION, min_size=2, max_size=12) | ANY_REGION.map(lambda region: [region] * 12),
    few=st.integers(1, len(AGENTS)),
)
def test_two_in_a_row_differ__SC_P16(seed: int, regions: list[str | None], few: int) -> None:
    made = Fingerprints(Random(seed), agents=AGENTS[:few])
    row = [made.next(region) for region in regions]
    for one, next_one in pairwise(row):
        shown = [(each.user_agent, each.viewport, each.timezone, each.language) for each in (one, next_one)]
        assert shown[0] != shown[1]


# Feature: scraping-microservices, Property 17: Action delays within configured range
@settings(max_examples=100)
@given(seed=SEEDS, least=st.floats(0, 60), more=st.floats(0, 60), given_=st.booleans())
def test_a_delay_is_in_its_range__SC_P17(seed: int, least: float, more: float, given_: bool) -> None:
    between = (least, least + more)
    delay = action_delay(Random(seed), between if given_ else None)
    low, high = between if given_ else DELAY
    assert low <= delay <= high
    assert DELAY == (0.5, 2.0)


def test_there_are_twenty_agents_none_older_than_a_year__SC_6() -> None:
    assert len({agent.user_agent for agent in AGENTS}) == len(AGENTS) >= 20
    for agent in AGENTS:
        assert LISTED - timedelta(days=365) <= agent.release.released <= LISTED, agent


def test_an_agents_hints_agree_with_its_user_agent__SC_6() -> None:
    platforms = {
        "Windows": ("Windows NT", "Win32"),
        "macOS": ("Macintosh", "MacIntel"),
        "Linux": ("X11; Linux", "Linux"),
    }
    for agent in AGENTS:
        hints = agent.client_hints()
        token, platform = platforms[hints["platform"]]
        assert token in agent.user_agent
        assert agent.platform.startswith(platform)
        major = re.findall(r"Chrome/(\d+)", agent.user_agent)[0]
        brands = {each["brand"]: each["version"] for each in hints["brands"]}
        full = {each["brand"]: each["version"] for each in hints["fullVersionList"]}
        assert brands["Chromium"] == brands[agent.vendor] == major
        assert full["Chromium"].startswith(f"{major}.")
        assert full[agent.vendor].startswith(f"{major}.")
        assert ("Edg/" in agent.user_agent) is (agent.vendor == "Microsoft Edge")


def test_every_region_is_well_formed__SC_6() -> None:
    assert NEUTRAL.places == ()
    for code, region in REGIONS.items():
        assert re.fullmatch(r"[A-Z]{2}", code)
        assert region.languages
        for place in region.places:
            assert ZoneInfo(place.timezone).key == place.timezone
            assert -90 <= place.latitude <= 90
            assert -180 <= place.longitude <= 180
