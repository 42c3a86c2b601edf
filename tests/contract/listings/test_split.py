"""A market whose result was cut off is read in parts of its rents, as long as further runs are allowed."""

import pytest

from forager.pipelines.listings.tasks import RentBand
from forager.sandbox.apify.config import RunRule
from tests.contract.listings.conftest import OpenRentals

CROWDED = {"homes": 90, "moving_share": 0.0, "twin_share": 0.0, "empty_share": 0.0, "rent_share": 1.0}
MOST = 40


async def crowded(simulated: OpenRentals, splits: int, **config: object):  # type: ignore[no-untyped-def]
    rentals = await simulated(**CROWDED, settings={"listings_split_runs": splits}, **config)
    await rentals.client.put("/api/admin/markets/nyc", json={"max_listings_per_scrape": MOST})
    return rentals


async def test_a_market_that_is_cut_off_is_read_in_parts_of_its_rents(simulated: OpenRentals) -> None:
    rentals = await crowded(simulated, 30)
    job = await rentals.scrape("nyc")
    market = await rentals.market("nyc")
    (scrape,) = market["scrapes"]
    first, *parts = rentals.started()
    assert first == "New York, NY"
    assert len(parts) >= 2
    assert all(part.startswith("https://www.apartments.com/new-york-ny/") for part in parts)
    with_rent = sum(1 for each in await rentals.rows("SELECT rent_min FROM listings") if each["rent_min"])
    assert with_rent > 2 * MOST, "the first run alone shows at most 40"
    assert (scrape["status"], scrape["complete"]) == ("completed", True)
    spent = round(rentals.apify.spent() * 10_000)
    assert job["spent"] == spent == round(float(scrape["cost_usd"]) * 10_000)


async def test_further_runs_are_limited_and_what_is_still_cut_off_is_not_complete(simulated: OpenRentals) -> None:
    rentals = await crowded(simulated, 3)
    await rentals.scrape("nyc")
    (scrape,) = (await rentals.market("nyc"))["scrapes"]
    assert len(rentals.started()) == 3, "a split takes two runs, and of three only one pair is possible"
    assert scrape["complete"] is False


async def test_without_the_setting_a_scrape_is_one_run(simulated: OpenRentals) -> None:
    rentals = await crowded(simulated, 0)
    await rentals.scrape("nyc")
    (scrape,) = (await rentals.market("nyc"))["scrapes"]
    assert rentals.started() == ["New York, NY"]
    assert (scrape["found"], scrape["complete"]) == (MOST, False)


async def test_a_part_whose_run_fails_is_tried_again_and_the_others_follow(simulated: OpenRentals) -> None:
    rentals = await crowded(simulated, 30, runs=(RunRule("failed", search="*under-*", times=1),))
    job = await rentals.scrape("nyc")
    started = rentals.started()
    assert job["state"] == "completed"
    assert started[1] == started[2], "the part that failed"
    assert (await rentals.market("nyc"))["scrapes"][0]["complete"]


@pytest.mark.parametrize(
    ("band", "middle", "halves"),
    [
        (RentBand(), 2000, ["under-1999", "over-2000"]),
        (RentBand(1000, 1999), 1500, ["1000-to-1499", "1500-to-1999"]),
        (RentBand(1000, 1999), 1000, None),
        (RentBand(1000, 1999), 1999, None),
    ],
)
def test_halves_leave_no_rent_out_and_none_twice(band: RentBand, middle: int, halves: list[str] | None) -> None:
    found = band.halves(middle)
    assert (None if found is None else [str(each) for each in found]) == halves
