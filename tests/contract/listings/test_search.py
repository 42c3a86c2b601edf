"""Searching listings: filters, pages, and the index that answers a filter by confidence. On both stores."""

from collections.abc import AsyncIterator
from itertools import product
from operator import ge, le
from typing import Any

import orjson

from forager.pipelines.listings.reports import listings as reports
from forager.pipelines.listings.reports.units import UnitFilter, matching_units
from tests.support.listings import Rentals

LIVE: dict[str, Any] = {"market": "boston", "limit": 100}


QUERIES: tuple[dict[str, Any], ...] = (
    {"max_rent": 2_000},
    {"min_rent": 2_500},
    {"beds": 2},
    {"baths": 1},
    {"min_area": 900},
    {"max_area": 600},
    {"beds": 2, "max_rent": 2_000},
    {"beds": 1, "min_rent": 1_500, "max_rent": 2_200},
    {"beds": 0, "max_area": 500},
    {"beds": 2, "baths": 1, "max_rent": 2_600},
    {"min_rent": 2_000, "max_rent": 2_100},
    {"min_area": 700, "max_area": 800, "max_rent": 2_400},
    {"beds": 2, "baths": 2, "min_rent": 1_000, "max_rent": 3_000, "min_area": 600, "max_area": 1_200},
)


def in_range(query: dict[str, Any], low: dict[str, Any], high: dict[str, Any]) -> bool:
    """Return whether a range from `low` to `high` in each field can match the query."""
    tests = (
        ("beds", low, le), ("beds", high, ge), ("baths", low, le), ("baths", high, ge),
        ("min_rent", high, ge), ("max_rent", low, le), ("min_area", high, ge), ("max_area", low, le),
    )  # fmt: skip
    return all(
        end.get(name.rpartition("_")[2]) is not None and holds(end[name.rpartition("_")[2]], query[name])
        for name, end, holds in tests
        if name in query
    )


def expected_of(query: dict[str, Any], listing: dict[str, Any]) -> bool:
    """Return the required result: one unit meets all conditions; without units, the ranges of the building do."""
    if listing["units"]:
        return any(in_range(query, unit, unit) for unit in listing["units"])
    low, high = (
        {name: listing[f"{name}_{end}"] for name in ("beds", "baths", "rent", "area")} for end in ("min", "max")
    )
    return in_range(query, low, high)


async def test_conditions_on_a_unit_hold_for_one_unit_and_pages_hold_all_of_it__LI_14__LI_20(rentals: Rentals) -> None:
    await rentals.scrape("boston")
    await rentals.scrape("nyc")
    everything = await rentals.get("/listings", limit=200)
    assert sum(bool(each["units"]) for each in everything) > 20
    assert sum(not each["units"] for each in everything) > 2, "buildings without units are compared by their ranges"
    found = wrong_by_range = 0
    for query in QUERIES:
        expected = [each["id"] for each in everything if expected_of(query, each)]
        answered = await rentals.get("/listings", limit=200, **query)
        assert [each["id"] for each in answered] == expected, query
        for each in answered:
            assert each["matching_units"] == [unit for unit in each["units"] if in_range(query, unit, unit)], query
        found += len(expected)
        wrong_by_range += sum(expected_of(query, {**each, "units": []}) for each in everything) - len(expected)
    assert found > 50
    assert wrong_by_range > 10, "the ranges of buildings would have found others"
    assert {each["matching_units"] for each in await rentals.get("/listings", **LIVE)} == {None}
    query = {"beds": 1, "max_rent": 3_000}
    paged = [each["id"] async for page in pages_of(rentals, {**LIVE, "limit": 5, **query}) for each in page]
    in_boston = [each for each in everything if each["market_id"] == "boston"]
    assert paged == [each["id"] for each in in_boston if expected_of(query, each)]
    assert len(paged) > 5


UNITS: tuple[list[dict[str, Any]] | None, ...] = (
    None,
    [],
    [{"beds": 2, "rent": 2_500}, {"beds": 1, "rent": 1_500}],
    [{"beds": 2, "rent": 1_900.5}],
    [{"beds": 2}, {"beds": 1, "rent": 1_500}],
    [{"rent": 1_800}, {"rent": 2_400}],
    [{"unit": "4B"}],
    [{"beds": 1, "rent": 1_800, "area": 2_000}],
)
BUILDINGS: tuple[dict[str, Any], ...] = (
    {"beds_min": 1, "beds_max": 3, "rent_min": 1_500, "rent_max": 2_500, "area_min": 600, "area_max": 900},
    {"beds_min": 2, "beds_max": 2, "rent_min": 1_900, "rent_max": 1_900, "area_min": None, "area_max": None},
    {"beds_min": None, "beds_max": None, "rent_min": None, "rent_max": None, "area_min": 700, "area_max": 700},
)


async def test_a_value_missing_in_a_unit_is_taken_from_the_building_only_if_that_is_certain__LI_20(
    rentals: Rentals,
) -> None:
    """On both stores as in the report, for every pair of units and ranges."""
    await rentals.scrape("boston")
    await rentals.scrape("nyc")
    ids = [each["id"] for each in await rentals.get("/listings", limit=200)]
    cases = dict(zip(ids, product(UNITS, BUILDINGS), strict=False))
    assert len(cases) == len(UNITS) * len(BUILDINGS)
    for number, (units, building) in cases.items():
        text = None if units is None else orjson.dumps(units).decode()
        names = ", ".join(f"{name} = :{name}" for name in building)
        await rentals.app.database.write(
            f"UPDATE listings SET units = :units, {names} WHERE id = :id", {"id": number, "units": text, **building}
        )
    hits: dict[str, set[int]] = {}
    for query in QUERIES:
        answered = {each["id"]: each for each in await rentals.get("/listings", limit=200, **query)}
        for number, (units, building) in cases.items():
            asked = UnitFilter(**query)
            row = {"baths_min": None, "baths_max": None, **building}
            if "baths" not in query:
                ranges = {name: (building[f"{name}_min"], building[f"{name}_max"]) for name in ("beds", "rent", "area")}
                low, high = ({name: each[end] for name, each in ranges.items()} for end in (0, 1))
                by_unit = bool(matching_units(asked, row, units or []))
                assert (number in answered) == (by_unit if units else in_range(query, low, high)), (query, units, row)
        hits[str(query)] = set(answered)
    both = {number for number, _ in cases.items() if number in hits[str({"beds": 2, "max_rent": 2_000})]}
    of_case = {(UNITS.index(cases[number][0]), BUILDINGS.index(cases[number][1])) for number in both}
    assert (2, 0) not in of_case, "2 beds for 2,500 and 1 bed for 1,500"
    assert (3, 2) in of_case, "the unit itself"
    assert (4, 0) not in of_case, "the rent of its 2 beds is unknown, and others have another"
    assert (4, 1) in of_case, "every unit of the building has the same rent"
    assert (5, 0) in of_case, "no unit shows beds: the building has 1 to 3"
    assert (5, 2) not in of_case, "beds are not known at all"


async def test_listings_are_found_by_words_city_and_zip_code__LI_14(rentals: Rentals) -> None:
    await rentals.scrape("boston")
    await rentals.scrape("nyc")
    everything = await rentals.get("/listings", limit=200)
    one = everything[5]
    word, number = one["title"].split()[0], one["address"].split()[0]
    for query, expected in (
        ({"city": one["city"].upper()}, lambda each: each["city"] == one["city"]),
        ({"zip": one["zip"]}, lambda each: each["zip"] == one["zip"]),
        ({"text": word.lower()}, lambda each: word.lower() in words_of(each)),
        ({"text": f"{number} {word}"}, lambda each: word.lower() in words_of(each) and number in words_of(each)),
        ({"text": "100%"}, lambda _: False),
        ({"text": "_"}, lambda _: False),
        ({"city": one["city"], "zip": one["zip"], "text": word}, lambda each: each["id"] == one["id"]),
    ):
        answered = await rentals.get("/listings", limit=200, **query)
        wanted = [each["id"] for each in everything if expected(each)]
        if "zip" in query and "text" in query:
            assert one["id"] in {each["id"] for each in answered}
        else:
            assert [each["id"] for each in answered] == wanted, query
    for wrong in ({"zip": "123"}, {"text": " "}, {"city": ""}, {"sort": "cheap"}):
        refused = await rentals.client.get("/api/v1/listings", params=wrong)
        assert refused.status_code == 422, refused.text
        assert {each["field"] for each in refused.json()["meta"]["fields"]} == set(wrong)


def words_of(listing: dict[str, Any]) -> str:
    return " ".join(str(listing[name] or "") for name in ("title", "address", "unit", "city", "state", "zip")).lower()


async def test_listings_are_sorted_and_what_has_no_value_comes_last__LI_14(rentals: Rentals) -> None:
    await rentals.scrape("boston")
    everything = await rentals.get("/listings", **LIVE)
    assert any(each["rent_min"] is None for each in everything)
    for sort, value, down in (
        ("rent", "rent_min", False),
        ("-rent", "rent_max", True),
        ("beds", "beds_min", False),
        ("-area", "area_max", True),
    ):
        paged = [each async for page in pages_of(rentals, {**LIVE, "limit": 9, "sort": sort}) for each in page]
        assert {each["id"] for each in paged} == {each["id"] for each in everything}, sort
        known = [each[value] for each in paged if each[value] is not None]
        assert known == sorted(known, reverse=down), sort
        assert [each[value] for each in paged][: len(known)] == known, sort
    seen = await rentals.get("/listings", **LIVE, sort="seen")
    assert [each["last_seen_at"] for each in seen] == sorted((each["last_seen_at"] for each in seen), reverse=True)
    cheapest = await rentals.get("/listings", **LIVE, sort="rent", beds=2)
    rents = [min(unit["rent"] for unit in each["matching_units"]) for each in cheapest if each["matching_units"]]
    assert len(rents) > 3
    assert rents == sorted(rents), "by the rent of the units that match, not by that of the building"
    cursor = (await rentals.client.get("/api/v1/listings", params={"limit": 2})).json()["meta"]["next_cursor"]
    other = await rentals.client.get("/api/v1/listings", params={"limit": 2, "sort": "rent", "cursor": cursor})
    assert other.status_code == 422


async def pages_of(rentals: Rentals, query: dict[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
    cursor = None
    while True:
        got = await rentals.client.get("/api/v1/listings", params={**query, **({"cursor": cursor} if cursor else {})})
        assert got.status_code == 200, got.text
        yield got.json()["data"]
        cursor = got.json()["meta"]["next_cursor"]
        if cursor is None:
            return


async def test_a_filter_by_confidence_is_answered_by_its_index__LI_11__LI_14(
    rentals: Rentals, monkeypatch: Any
) -> None:
    """The same answer by the index as newest first: with room for few, and for none."""
    await rentals.scrape("boston")
    everything = await rentals.get("/listings", **LIVE)
    aged = {each["id"] for each in everything[::3]}
    ids = ", ".join(map(str, aged))
    await rentals.app.database.write(
        "UPDATE listings SET confidence_updated_at = confidence_updated_at - 36000000, zero_at = zero_at - 36000000"
        f" WHERE id IN ({ids})"
    )
    for few in (reports.FEW, 0):
        monkeypatch.setattr(reports, "FEW", few)
        fresh = await rentals.get("/listings", **LIVE, min_confidence=90)
        assert [each["id"] for each in fresh] == [each["id"] for each in everything if each["id"] not in aged]
    database, now = rentals.app.database, await rentals.app.ledger.now()
    if database.dialect == "sqlite":
        values: dict[str, Any] = {"most": 10}
        for condition in reports._confident(90, now, values):
            sql = f"EXPLAIN QUERY PLAN SELECT id FROM listings WHERE {condition} LIMIT :most"
            (step,) = await database.fetch(sql, values)
            assert "USING COVERING INDEX ix_listings_decay_rate_confidence_base_zero_at_id" in step["detail"]
