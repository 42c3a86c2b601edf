"""Two weeks of 19 markets through the whole engine in simulated time; a year of them with `make chaos`.

What is stored is compared with the world as it was: homes that disappeared are inactive soon after their confidence
fell below 40, no live home was ever called gone, and the books agree with the upstream's log.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forager.core.freshness import DOUBTFUL, crossing
from forager.pipelines.listings.markets import INITIAL_MARKETS, TIERS
from forager.sandbox.apify.config import RunRule
from forager.sandbox.trouble import When
from tests.support.listings import Rentals, open_rentals
from tests.support.simulation import SimulatedClock

LATE = timedelta(minutes=65)
UNLUCKY = "Providence, RI"
"""All of its runs fail for some days: its circuit opens, and heals."""


@pytest.mark.parametrize(
    ("days", "homes"),
    [
        (14, 10),
        pytest.param(14, 30, marks=pytest.mark.chaos),
        pytest.param(365, 30, marks=pytest.mark.chaos),
    ],
)
async def test_every_market_stays_fresh_and_the_books_agree__LI_4__LI_5__LI_11__LI_12__LI_16(
    tmp_path: Path, days: int, homes: int
) -> None:
    clock = SimulatedClock()
    config: dict[str, Any] = {
        "homes": homes,
        "runs": (RunRule("aborted", search=UNLUCKY, times=5), RunRule("failed", search="Boston, MA", times=1, after=3)),
        "script": (
            When("lost", operation="runs.start", times=2, after=20),
            When("captcha", operation="page.get", times=5),
        ),
        "memory_limit_mb": 65_536,
        "keep_runs": 1_000_000,
    }
    async with open_rentals(tmp_path / "home", clock=clock, schedules=True, **config) as rentals:
        await rentals.pass_time(hours=24 * days)
        await homes_are_as_they_should_be(rentals)
        await markets_were_scraped_in_time(rentals, days)
        await books_agree(rentals)


async def homes_are_as_they_should_be(rentals: Rentals) -> None:
    world, now = rentals.apify.world, await rentals.app.ledger.now()
    rows = await rentals.rows("SELECT * FROM listings")
    assert len(rows) > 19 * rentals.apify.config.homes / 2
    gone = 0
    for row in rows:
        listing = world.listing(row["listing_key"].rpartition(":")[2])
        assert listing is not None
        since = moment(row["confidence_updated_at"])
        doubtful = crossing(row["confidence_base"], since, row["decay_rate"], DOUBTFUL)
        if row["gone_at"] is None:
            live = world.home_listed(listing, now.timestamp())
            assert live or now <= doubtful + LATE, f"{row['listing_key']} was rented, and is shown since {doubtful}"
            continue
        gone += 1
        assert not world.home_listed(listing, row["gone_at"] / 1000), f"{row['listing_key']} was live: {row}"
        assert moment(row["gone_at"]) <= doubtful + LATE
    assert gone > 10


async def markets_were_scraped_in_time(rentals: Rentals, days: int) -> None:
    """The time between two scrapes is the tier's, and at most one dispatch and the scrape itself longer."""
    started: dict[str, list[datetime]] = {}
    for row in await rentals.rows("SELECT market_id, started_at FROM market_scrapes ORDER BY started_at"):
        started.setdefault(row["market_id"], []).append(moment(row["started_at"]))
    assert started.keys() == {market.id for market in INITIAL_MARKETS}
    for market in INITIAL_MARKETS:
        if market.search in (UNLUCKY, "Boston, MA"):
            continue
        hours = TIERS[market.tier].frequency_hours
        gaps = [
            (later - earlier) / timedelta(hours=1)
            for earlier, later in zip(started[market.id], started[market.id][1:], strict=False)
        ]
        assert all(hours <= gap <= hours + 1 for gap in gaps), (market.id, gaps)
        assert len(gaps) >= days * 24 // (hours + 1) - 1
    unlucky = await rentals.market("providence")
    failed = await rentals.rows(
        "SELECT 1 AS one FROM market_scrapes WHERE market_id = 'providence' AND status = 'failed'"
    )
    assert len(failed) == 5, "three opened the circuit, and one more each day"
    assert (unlucky["consecutive_failures"], unlucky["last_scrape_status"]) == (0, "completed")


async def books_agree(rentals: Rentals) -> None:
    """One stored run for each run that was started, one start for each scrape and retry, and the same money."""
    stored = await rentals.rows("SELECT id, cost_usd FROM source_runs")
    assert {row["id"] for row in stored} == {run.id for run in rentals.apify.runs}
    (scrapes,) = await rentals.rows("SELECT count(*) AS n, sum(cost_usd) AS cost FROM market_scrapes")
    retries = 1  # Boston's run that failed was followed by another; lost answers cost none
    assert len(stored) == scrapes["n"] + retries
    ended = [
        run for run in rentals.apify.runs if run.id in {row["id"] for row in stored if row["cost_usd"] is not None}
    ]
    spent = sum(round(run.final_cost(rentals.apify.config) * 10_000) for run in ended)
    assert sum(row["cost_usd"] or 0 for row in stored) == spent == scrapes["cost"]
    (jobs,) = await rentals.rows("SELECT sum(spent) AS spent FROM jobs WHERE pipeline = 'listings'")
    assert jobs["spent"] == spent


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
