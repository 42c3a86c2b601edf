"""The sandbox's places and the shapes of its answers, without a server."""

import json
from typing import Any

import pytest

from forager.core.errors import Rejected
from forager.sandbox import FULL_DENSITY, Band, SerperConfig, World
from forager.sandbox.answers import NotAnswerable, answer, read_query, split_q

ZIPS = [f"{number:05d}" for number in range(85001, 85401)]


def asked(config: SerperConfig, zip_code: str, page: int = 1, endpoint: str = "places", **sent: Any) -> dict[str, Any]:
    query = read_query(endpoint, {"q": f"{zip_code} coffee shops", "page": page, "num": 10, **sent})
    whole: dict[str, Any] = json.loads(answer(config.world(), config, query, weekday=2).body)
    return whole


def rows_of(config: SerperConfig, pages: int = 3) -> list[dict[str, Any]]:
    return [
        row
        for zip_code in ZIPS[:120]
        for page in range(1, pages + 1)
        for row in asked(config, zip_code, page).get("places", [])
    ]


def test_the_same_seed_is_the_same_world_and_another_seed_is_another() -> None:
    pages = [[World(seed, FULL_DENSITY).page(zip_code, "bars", 1) for zip_code in ZIPS] for seed in (7, 7, 8)]
    assert pages[0] == pages[1]
    assert not {place.cid for page in pages[0] for place in page} & {place.cid for page in pages[2] for place in page}
    assert [World(7).count(zip_code, "bars") for zip_code in ZIPS] != [
        World(8).count(zip_code, "bars") for zip_code in ZIPS
    ]


def test_the_world_does_not_change_from_one_version_to_the_next() -> None:
    """A seed that is written into a report must mean the same places later."""
    assert [World(7).count(zip_code, "coffee shops") for zip_code in ZIPS[:8]] == [0, 7, 54, 20, 24, 20, 9, 7]
    assert World(7, FULL_DENSITY).page("85001", "coffee shops", 1)[0].cid == "10199519548760760215"


def test_dense_and_sparse_zips_come_in_the_configured_shares() -> None:
    counts = [World(7).count(zip_code, "bars") for zip_code in ZIPS]
    shares = [
        sum(low <= count <= high for count in counts) / len(counts)
        for low, high in ((0, 0), (1, 9), (10, 29), (30, 60))
    ]
    assert shares == pytest.approx([0.15, 0.35, 0.30, 0.20], abs=0.08)
    assert {World(7, FULL_DENSITY).count(zip_code, "bars") for zip_code in ZIPS} == {1000}


def test_pages_cut_the_places_of_a_zip_into_tens_and_end() -> None:
    for zip_code in ZIPS:
        world = World(7)
        sizes = [len(world.page(zip_code, "bars", page)) for page in range(1, 9)]
        assert sum(sizes) == world.count(zip_code, "bars")
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) <= 10


def test_no_page_shows_a_place_twice_but_later_pages_and_neighbours_do() -> None:
    world = World(7, FULL_DENSITY)
    pages = [[place.cid for place in world.page("85001", "bars", page)] for page in range(1, 11)]
    assert all(len(set(page)) == 10 for page in pages)
    assert 0 < 100 - len({cid for page in pages for cid in page}) < 20
    here, there = world.reach("85001", "bars", 10).cids, world.reach("85002", "bars", 10).cids
    assert 0 < len(here & there) < 15
    assert not here & world.reach("85011", "bars", 10).cids


def test_a_place_that_two_zips_show_is_the_same_place() -> None:
    world = World(7, FULL_DENSITY)
    seen: dict[str, Any] = {}
    for zip_code in ZIPS[:20]:
        for page in range(1, 4):
            for place in world.page(zip_code, "bars", page):
                assert seen.setdefault(place.cid, place) == place


def test_the_reach_of_a_zip_ends_with_its_first_short_page() -> None:
    world = World(7, (Band(1.0, 20, 20),))
    assert world.reach("85001", "bars", 10).queries == 3  # ten, ten, none
    assert world.reach("85001", "bars", 2).queries == 2
    assert world.reach("85001", "bars", 3).cids == {
        place.cid for page in (1, 2) for place in world.page("85001", "bars", page)
    }


def test_absent_fields_are_left_out_and_never_null() -> None:
    for variant in ("A", "B", "mixed"):
        for row in rows_of(SerperConfig(variant=variant)):
            assert None not in row.values()
            assert "" not in row.values()


def test_cids_are_decimal_texts_beyond_what_a_json_number_can_hold() -> None:
    cids = [row["cid"] for row in rows_of(SerperConfig())]
    assert all(isinstance(cid, str) and cid.isdigit() and len(cid) <= 20 for cid in cids)
    assert max(map(len, cids)) == 20
    assert all(int(cid) < 2**64 for cid in cids)


def test_variant_a_has_full_addresses_and_phones_but_no_ratings() -> None:
    rows = rows_of(SerperConfig(variant="A"))
    assert all(row["address"].count(",") == 2 and "AZ 85" in row["address"] for row in rows)
    assert not any({"rating", "ratingCount", "category", "thumbnailUrl", "placeId"} & set(row) for row in rows)
    for name, low, high in (("phoneNumber", 0.85, 0.95), ("website", 0.85, 0.95), ("bookingLinks", 0.05, 0.15)):
        assert low < sum(name in row for row in rows) / len(rows) < high


def test_variant_b_has_short_addresses_and_ratings_but_no_phones() -> None:
    rows = rows_of(SerperConfig(variant="B"))
    assert not any("," in row["address"] for row in rows)
    assert any(not row["address"][0].isdigit() for row in rows)  # a bare city
    assert not any({"phoneNumber", "bookingLinks", "placeId", "fid"} & set(row) for row in rows)
    assert all("category" in row and "thumbnailUrl" in row for row in rows)
    assert 0.8 < sum("rating" in row for row in rows) / len(rows) < 0.95
    assert any(isinstance(row.get("rating"), int) for row in rows)
    assert max(row.get("ratingCount", 0) for row in rows) < 1000  # larger ones are cut at the thousands


def test_some_coordinates_carry_float_artefacts() -> None:
    lengths = [len(str(row["latitude"]).partition(".")[2]) for row in rows_of(SerperConfig())]
    assert 0.1 < sum(length > 10 for length in lengths) / len(lengths) < 0.4


def test_a_switch_puts_place_ids_on_some_rows() -> None:
    rows = rows_of(SerperConfig(place_id_share=0.3))
    assert 0.2 < sum(row.get("placeId", "").startswith("ChIJ") for row in rows) / len(rows) < 0.4


def test_an_answer_begins_with_the_echo_of_what_was_sent_and_ends_with_credits() -> None:
    whole = asked(SerperConfig(density=FULL_DENSITY), "85001", page=2, gl="us", hl="en")
    assert list(whole) == ["searchParameters", "places", "credits"]
    assert whole["searchParameters"] == {
        "q": "85001 coffee shops", "gl": "us", "hl": "en", "num": 10, "page": 2, "type": "places", "engine": "google",
    }  # fmt: skip
    assert whole["credits"] == 1
    assert [row["position"] for row in whole["places"]] == list(range(1, 11))
    going_on = asked(SerperConfig(density=FULL_DENSITY, positions_continue=True), "85001", page=2)
    assert [row["position"] for row in going_on["places"]] == list(range(11, 21))


def test_num_does_not_change_the_length_of_a_page() -> None:
    assert len(asked(SerperConfig(density=FULL_DENSITY), "85001", num=100)["places"]) == 10


def test_a_page_beyond_the_last_is_empty_or_lacks_the_key() -> None:
    nothing = (Band(1.0, 0, 0),)
    assert asked(SerperConfig(density=nothing, empty_page="empty"), "85001")["places"] == []
    assert "places" not in asked(SerperConfig(density=nothing, empty_page="missing"), "85001")
    mixed = ["places" in asked(SerperConfig(density=nothing), zip_code) for zip_code in ZIPS[:60]]
    assert {True, False} == set(mixed)


def test_maps_rows_are_rich_and_need_ll_after_the_first_page() -> None:
    config = SerperConfig(density=FULL_DENSITY)
    whole = asked(config, "85001", endpoint="maps")
    assert list(whole) == ["searchParameters", "ll", "places", "credits"]
    assert (len(whole["places"]), whole["credits"]) == (20, 3)
    assert all({"fid", "types", "openingHours"} <= set(row) for row in whole["places"])
    assert next(iter(whole["places"][0]["openingHours"])) == "Wednesday"  # the day of the request
    with pytest.raises(NotAnswerable, match="ll"):
        asked(config, "85001", page=2, endpoint="maps")
    assert len(asked(config, "85001", page=2, endpoint="maps", ll=whole["ll"])["places"]) == 20


def test_categories_come_in_the_requested_language() -> None:
    config = SerperConfig(density=FULL_DENSITY, variant="B")
    assert asked(config, "85001", hl="de")["places"][0]["category"] == "Coffee shop-Dienst"


def test_a_question_is_a_zip_and_a_keyword_or_a_keyword_alone() -> None:
    assert split_q("85001 Coffee  Shops") == ("85001", "coffee  shops")
    assert split_q("coffee shops in Marlow Falls") == ("", "coffee shops in marlow falls")
    assert split_q("85001") == ("", "85001")
    assert asked(SerperConfig(density=FULL_DENSITY), "near")["places"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"density": [[0.5, 1, 2]]},
        {"density": [[1.0, 5, 2]]},
        {"variant": "C"},
        {"latency_ms": -1},
        {"rate_limit": 0},
        {"faults": {"http500": 1.5}},
        {"faults": {"flood": 0.1}},
        {"script": [{"fault": "http500", "zipcode": "85001"}]},
        {"speed": 3},
        {"latency_ms": "fast"},
        {"key": ""},
    ],
)
def test_a_wrong_setting_is_rejected_with_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as found:
        SerperConfig().changed(wrong)
    assert found.value.message
