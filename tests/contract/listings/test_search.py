"""Searching listings: filters, pages, and the index that answers a filter by confidence. On both stores."""

from typing import Any

from forager.pipelines.listings import reports
from tests.support.listings import Rentals

LIVE: dict[str, Any] = {"market": "boston", "limit": 100}


async def test_filters_give_exactly_what_they_name_and_pages_hold_all_of_it__LI_14(rentals: Rentals) -> None:
    await rentals.scrape("boston")
    await rentals.scrape("nyc")
    everything = await rentals.get("/listings", **LIVE)
    assert len(everything) > 10
    known = [each for each in everything if each["rent_min"] and each["beds_min"] is not None and each["baths_max"]]
    middle = sorted(each["rent_min"] for each in known)[len(known) // 2]
    for name, value, low, high in (
        ("max_rent", middle, "rent_min", None),
        ("min_rent", middle, None, "rent_max"),
        ("beds", known[0]["beds_min"], "beds_min", "beds_max"),
        ("baths", known[0]["baths_max"], "baths_min", "baths_max"),
    ):
        expected = [
            each["id"]
            for each in everything
            if (low is None or (each[low] is not None and each[low] <= value))
            and (high is None or (each[high] is not None and each[high] >= value))
        ]
        answered = await rentals.get("/listings", **LIVE, **{name: value})
        assert [each["id"] for each in answered] == expected, name
        assert expected, name
    paged, cursor = [], None
    while True:
        query: dict[str, Any] = {**LIVE, "limit": 7, **({"cursor": cursor} if cursor else {})}
        page = (await rentals.client.get("/api/v1/listings", params=query)).json()
        paged += page["data"]
        cursor = page["meta"]["next_cursor"]
        if cursor is None:
            break
    assert [each["id"] for each in paged] == [each["id"] for each in everything]


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
            assert "USING COVERING INDEX ix_listings_decay_rate_zero_at_id" in step["detail"]
