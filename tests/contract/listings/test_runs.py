"""Runs that do not go well: retries by LI-10's table, lost answers, costs. Simulated time."""

from itertools import pairwise

import pytest

from forager.sandbox.apify.config import RunRule
from forager.sandbox.faults import When
from tests.contract.listings.conftest import OpenRentals
from tests.support.listings import Rentals

SMALL = {"homes": 3, "moving_share": 0.0, "twin_share": 0.0}


def gaps(rentals: Rentals) -> list[int]:
    """Whole seconds between two starts of runs."""
    begun = [run.started for run in rentals.apify.runs]
    return [round(later - earlier) for earlier, later in pairwise(begun)]


async def test_a_run_that_times_out_has_two_more_with_twice_the_time__LI_10(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL, runs=(RunRule("timed_out", seconds=10_000.0, times=2),))
    job = await rentals.scrape("nyc")
    assert job["state"] == "completed"
    assert [run.timeout for run in rentals.apify.runs] == [600, 1200, 1200]
    rentals.apify.script_runs(RunRule("timed_out", seconds=10_000.0, times=3))
    job = await rentals.scrape("nyc")
    assert job["failed"] == 1
    assert len(rentals.apify.runs) == 6
    market = await rentals.market("nyc")
    assert (market["last_scrape_status"], market["consecutive_failures"]) == ("failed", 1)


async def test_a_run_that_failed_has_three_more_after_60_120_and_240_seconds__LI_10(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL, runs=(RunRule("failed", seconds=20.0, times=4),))
    job = await rentals.scrape("nyc")
    assert job["failed"] == 1
    assert len(rentals.apify.runs) == 4
    waits = [gap - 20 for gap in gaps(rentals)]
    assert [wait - wait % 60 for wait in waits] == [60, 120, 240], waits


@pytest.mark.parametrize(
    ("fault", "delays"), [("http429", [300, 300, 300]), ("http500", [60, 120, 240]), ("reset", [30, 60, 120])]
)
async def test_a_start_that_is_refused_is_retried_by_its_table__LI_10(
    simulated: OpenRentals, fault: str, delays: list[int]
) -> None:
    rentals = await simulated(**SMALL, script=(When(fault, operation="runs.list", times=4),))
    job = await rentals.scrape("nyc")
    asked = [call.wall for call in rentals.apify.log.since(0) if call.operation == "runs.list"]
    waits = [later - earlier for earlier, later in pairwise(asked)]
    assert job["failed"] == 1
    assert all(delay <= wait <= 1.11 * delay + 2 for wait, delay in zip(waits, delays, strict=True)), waits


async def test_a_start_whose_answer_was_lost_costs_no_second_run__LI_10(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL, script=(When("lost", operation="runs.start", times=1),))
    job = await rentals.scrape("nyc")
    assert job["state"] == "completed", job
    assert rentals.started() == ["New York, NY"]
    assert job["spent"] == round(rentals.apify.spent() * 10_000)


@pytest.mark.parametrize("outcome", ["empty", "placeholder"])
async def test_a_run_that_succeeds_without_listings_is_partial__LI_7(simulated: OpenRentals, outcome: str) -> None:
    rentals = await simulated(**SMALL, runs=(RunRule(outcome),))
    await rentals.scrape("nyc")
    market = await rentals.market("nyc")
    assert (market["last_scrape_status"], market["consecutive_failures"]) == ("partial", 0)
    assert not market["scrapes"][0]["complete"]


@pytest.mark.parametrize("status", ["failed", "aborted", "timed_out", "succeeded"])
async def test_what_a_scrape_cost_is_final_however_it_ended__LI_7(simulated: OpenRentals, status: str) -> None:
    rentals = await simulated(**SMALL, runs=(RunRule(status, times=None),))
    job = await rentals.scrape("nyc")
    spent = round(rentals.apify.spent() * 10_000)
    assert job["spent"] == spent > 0
    (scrape,) = (await rentals.market("nyc"))["scrapes"]
    assert round(float(scrape["cost_usd"]) * 10_000) == spent
    assert {row["cost_usd"] is None for row in await rentals.rows("SELECT cost_usd FROM source_runs")} == {False}


async def test_a_dataset_is_read_to_its_total_though_pages_are_thinned__LI_7(simulated: OpenRentals) -> None:
    rentals = await simulated(homes=700, moving_share=0.0, twin_share=0.0, empty_share=0.1)
    await rentals.client.put("/api/admin/markets/nyc", json={"max_listings_per_scrape": 700})
    await rentals.scrape("nyc")
    (scrape,) = (await rentals.market("nyc"))["scrapes"]
    assert rentals.asked("dataset.items") == 3
    assert 600 < scrape["found"] < 700
    assert scrape["found"] == scrape["normalised"]
