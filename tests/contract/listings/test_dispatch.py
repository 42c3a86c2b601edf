"""Scheduling of scrapes: the schedules, the circuit, the limits of the data source. Simulated time."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from forager.core.errors import Conflict
from forager.pipelines.listings.records import MarketConfig
from forager.pipelines.listings.reports import markets
from forager.pipelines.listings.reports.markets import OpenScrape, dispatch_due, figures, scrape_now
from forager.pipelines.listings.wiring import prepare
from forager.sandbox.apify.config import RunRule
from forager.sandbox.faults import When
from forager.sandbox.site import Outage
from forager.sdk.queries import read_rows
from tests.contract.listings.conftest import OpenRentals
from tests.support.listings import Rentals

SMALL = {"homes": 3, "moving_share": 0.0, "twin_share": 0.0}


async def test_each_tier_is_scraped_at_its_rate_and_no_schedule_names_a_city__LI_4__LI_5(
    simulated: OpenRentals,
) -> None:
    rentals = await simulated(**SMALL, schedules=True)
    await rentals.keep_only("nyc", "newark", "hartford")
    schedules = await rentals.get("/schedules")
    assert {each["name"] for each in schedules} == {"dispatch_scrapes", "decay_and_verify", "cleanup_maintenance"}
    assert {tuple(each["params"]) for each in schedules} == {("action",)}
    await rentals.pass_time(hours=48)
    started = rentals.started()
    assert {city: started.count(city) for city in set(started)} == {
        "New York, NY": 8,
        "Newark, NJ": 4,
        "Hartford, CT": 2,
    }
    runs = await rentals.get("/jobs", schedule="dispatch_scrapes", limit=100)
    assert len(runs) == 48
    assert {(job["state"], job["schedule"]) for job in runs} == {("completed", "dispatch_scrapes")}
    (task,) = await rentals.get(f"/jobs/{runs[-1]['id']}/tasks")
    assert task["facts"] == {"dispatched": 3, "markets": 3}


async def test_a_week_of_scrapes_is_6_12_and_24_hours_apart_from_start_to_start__LI_5__LI_21(
    simulated: OpenRentals,
) -> None:
    """Exactly, by the upstream's own list of runs; also after a scrape by hand between two dispatches."""
    rentals = await simulated(**SMALL, schedules=True)
    await rentals.keep_only("nyc", "boston", "newark", "hartford")
    await rentals.pass_time(hours=2.5)
    by_hand = await rentals.scrape("boston")
    assert by_hand["state"] == "completed"
    began = rentals.app.clock.now().timestamp()
    await rentals.pass_time(hours=24 * 7)
    for city, hours, times in (("New York, NY", 6, 28), ("Newark, NJ", 12, 14), ("Hartford, CT", 24, 7)):
        starts = [run.started for run in rentals.apify.runs if run.search == city]
        assert len(starts) >= times, city
        assert {round(later - earlier) for earlier, later in pairwise(starts)} == {hours * 3_600}, city
    boston = [run.started for run in rentals.apify.runs if run.search == "Boston, MA" and run.started > began]
    assert {round(later - earlier) for earlier, later in pairwise(boston)} == {6 * 3_600}
    (hand,) = [run.started for run in rentals.apify.runs if run.search == "Boston, MA" and run.started <= began][1:]
    assert 6 * 3_600 <= boston[0] - hand <= 6 * 3_600 + 60, "a period after it was scraped by hand, and the stagger"
    sql = "SELECT market_id, started_at FROM market_scrapes WHERE market_id <> 'boston' ORDER BY market_id, started_at"
    rows = await rentals.rows(sql)
    gaps = {
        (one["market_id"], other["started_at"] - one["started_at"])
        for one, other in pairwise(rows)
        if one["market_id"] == other["market_id"]
    }
    assert gaps == {("nyc", 6 * 3_600_000), ("newark", 12 * 3_600_000), ("hartford", 24 * 3_600_000)}


async def test_a_market_whose_last_scrape_is_taken_back_by_sql_is_due_at_once__LI_1(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL)
    await rentals.keep_only("hartford")
    await rentals.scrape("hartford")
    for change in ("last_scrape_at = NULL", "last_scrape_at = last_scrape_at - 90000000"):
        await rentals.app.database.write(f"UPDATE market_configs SET {change}")
        runs = len(rentals.apify.runs)
        await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
        await rentals.pass_time(seconds=300)
        assert len(rentals.apify.runs) == runs + 1, change


async def test_a_scrape_that_waits_for_its_moment_is_shown_as_such__LI_3(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL)
    await rentals.keep_only("nyc")
    await rentals.scrape("nyc")
    await rentals.pass_time(hours=5.5)
    await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
    await rentals.pass_time(seconds=30)
    refused = await rentals.client.post("/api/v1/admin/markets/nyc/scrape")
    assert refused.status_code == 409
    assert "by the schedule" in refused.json()["error"]
    assert len(rentals.apify.runs) == 1


@pytest.mark.parametrize("autostart", [False, True])
async def test_nothing_that_costs_money_starts_without_a_request__LI_21(
    simulated: OpenRentals, autostart: bool
) -> None:
    rentals = await simulated(**SMALL, schedules=True, settings={"markets_autostart": autostart})
    await rentals.keep_only("nyc", "hartford")
    schedules = {each["name"]: each["paused"] for each in await rentals.get("/schedules")}
    assert schedules == {"dispatch_scrapes": not autostart, "decay_and_verify": False, "cleanup_maintenance": False}
    state = await rentals.get("/admin/scraping")
    assert (state["started"], state["next_dispatch_at"] is None) == (autostart, not autostart)
    month = state["per_month"]
    assert (month["markets"], month["runs"]) == (2, round(730 / 6 + 730 / 24))
    assert float(month["expected_usd"]) == pytest.approx(152 * 0.11, abs=0.1)
    assert float(month["worst_usd"]) == pytest.approx(152, abs=0.5)
    notices = await rentals.app.notices()
    assert [("forager markets start" in line, "2 markets" in line) for line in notices] == (
        [] if autostart else [(True, True)]
    )
    await rentals.pass_time(hours=30)
    assert bool(list(rentals.apify.log.since(0))) is autostart, "without a start, not one request to Apify"
    assert bool(rentals.started()) is autostart
    assert {each["next_scrape_at"] is None for each in await rentals.get("/admin/markets")} == {not autostart}
    started = (await rentals.client.post("/api/v1/admin/scraping/start")).json()["data"]
    assert started["started"]
    assert await rentals.app.notices() == []
    await rentals.pass_time(hours=1.1)
    assert set(rentals.started()) == {"New York, NY", "Hartford, CT"}


async def test_a_stop_holds_over_restarts_and_cancels_what_has_not_begun__LI_21(
    simulated: OpenRentals,
) -> None:
    rentals = await simulated(**SMALL, schedules=True)
    await rentals.keep_only("nyc")
    await rentals.pass_time(hours=1.5)
    await rentals.scrape("nyc")
    runs = len(rentals.apify.runs)
    await rentals.pass_time(hours=5.7)  # planned for half past, and not begun
    assert (await rentals.market("nyc"))["scraping_job"] is not None
    stopped = (await rentals.client.post("/api/v1/admin/scraping/stop")).json()["data"]
    assert (stopped["started"], stopped["cancelled"]) == (False, 1)
    await prepare(rentals.app)  # as at every start, here with FORAGER_MARKETS_AUTOSTART
    await rentals.pass_time(hours=13)
    assert len(rentals.apify.runs) == runs
    assert (await rentals.market("nyc"))["consecutive_failures"] == 0
    await rentals.client.delete("/api/v1/schedules/dispatch_scrapes")
    assert (await rentals.client.post("/api/v1/admin/scraping/start")).json()["data"]["started"], "it is made again"
    await rentals.pass_time(hours=1.1)
    assert len(rentals.apify.runs) == runs + 1


async def test_a_failed_or_skipped_scrape_keeps_its_message__LI_7__LI_13(simulated: OpenRentals) -> None:
    refusal = When("http403", operation="runs.list", times=1, after=2)
    rentals = await simulated(**SMALL, runs=(RunRule("aborted", times=1),), script=(refusal,))
    await rentals.scrape("nyc")
    await rentals.app.database.write("UPDATE data_sources SET is_enabled = false")
    await rentals.scrape("nyc")
    skipped, failed = (await rentals.market("nyc"))["scrapes"]
    assert (failed["status"], failed["reason"]) == ("failed", "run_aborted")
    assert "was aborted at Apify" in failed["message"]
    assert (skipped["status"], skipped["reason"]) == ("skipped", "limit")
    assert skipped["message"] == "The data source apify is disabled."
    rows = await rentals.rows("SELECT status, reason FROM scrape_jobs ORDER BY started_at")
    assert [(row["status"], row["reason"]) for row in rows] == [
        (each["status"], f"{each['reason']}: {each['message']}") for each in (failed, skipped)
    ]
    await rentals.app.database.write("UPDATE data_sources SET is_enabled = true")
    await rentals.scrape("nyc")
    refused = (await rentals.market("nyc"))["scrapes"][0]
    assert (refused["status"], refused["reason"]) == ("failed", "apify_refused"), "also if no run was started"
    assert "Check the plan, the credit" in refused["message"]


async def test_scrapes_of_one_dispatch_start_within_a_minute_at_different_moments__LI_5(
    simulated: OpenRentals,
) -> None:
    rentals = await simulated(**SMALL, memory_limit_mb=65_536)
    with capture_logs() as logged:
        await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
        await rentals.pass_time(seconds=180)
    assert any(line.get("message") == "Dispatched 19 scrapes for 19 markets" for line in logged)
    begun = [run.started for run in rentals.apify.runs]
    assert len(begun) == len(set(begun)) == 19
    assert max(begun) - min(begun) <= 61


async def test_a_market_with_an_invalid_row_holds_up_no_other__LI_1(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL)
    await rentals.keep_only("nyc")
    sql = "INSERT INTO market_configs (id, display_name, city, state, tier) VALUES (:id, 'x', 'x', :state, :tier)"
    for market, state, tier in (("warm", "MA", "warm"), ("long", "Massachusetts", "hot")):
        await rentals.app.database.write(sql, {"id": market, "state": state, "tier": tier})
    with capture_logs() as logged:
        for action in ("dispatch_scrapes", "decay_and_verify", "cleanup_maintenance"):
            await rentals.app.submit("listings", {"action": action})
        await rentals.pass_time(seconds=300)
    assert rentals.started() == ["New York, NY"]
    assert {
        (line["market"], line["problem"].partition(":")[0]) for line in logged if line["event"] == "market_invalid"
    } == {
        ("warm", "tier"),
        ("long", "state"),
    }
    listed = {each["id"]: each["problem"] for each in await rentals.get("/admin/markets")}
    assert listed == {
        "long": "state: must have at most 2 characters",
        "nyc": None,
        "warm": "tier: choose from 'hot', 'standard' or 'cool'",
    }
    refused = await rentals.client.get("/api/v1/admin/markets/warm")
    assert (refused.status_code, "forager markets set warm --tier standard" in refused.text) == (409, True)
    corrected = await rentals.client.put("/api/v1/admin/markets/long", json={"state": "MA"})
    assert (corrected.status_code, corrected.json()["data"]["problem"]) == (200, None)
    assert await rentals.rows("SELECT error FROM tasks WHERE state = 5") == []
    assert (await rentals.client.delete("/api/v1/admin/markets/warm")).status_code == 200


async def test_two_dispatchers_at_once_create_one_scrape_of_a_market__LI_5(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL, memory_limit_mb=65_536)
    markets = await read_rows(rentals.app.database, MarketConfig)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    created = await asyncio.gather(*(dispatch_due(rentals.app, markets, now) for _ in range(3)))
    assert sum(created) == 19
    await rentals.pass_time(seconds=300)
    assert len(rentals.apify.runs) == 19


async def test_a_dispatch_and_a_scrape_by_hand_at_once_create_one_job__LI_3__LI_5(
    simulated: OpenRentals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if both had looked for a running scrape before one of them created it."""

    async def none_open(_: object) -> dict[str, OpenScrape]:
        return {}

    rentals = await simulated(**SMALL)
    await rentals.keep_only("nyc", "boston")
    monkeypatch.setattr(markets, "open_scrapes", none_open)
    boston, nyc = await read_rows(rentals.app.database, MarketConfig, order="id")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    await scrape_now(rentals.app, boston, now)
    assert await dispatch_due(rentals.app, [boston, nyc], now + timedelta(seconds=1)) == 1
    with pytest.raises(Conflict):
        await scrape_now(rentals.app, nyc, now + timedelta(seconds=2))
    await rentals.pass_time(seconds=300)
    assert len(rentals.apify.runs) == 2


async def test_three_failures_open_the_circuit_and_the_daily_reset_tries_once_more__LI_16(
    simulated: OpenRentals,
) -> None:
    failing = RunRule("aborted", times=None)
    rentals = await simulated(**SMALL, runs=(failing,), schedules=True)
    await rentals.keep_only("nyc")
    await rentals.pass_time(hours=2.9)
    assert (await rentals.market("nyc"))["consecutive_failures"] == 2
    await rentals.pass_time(hours=0.5)
    market = await rentals.market("nyc")
    assert (market["consecutive_failures"], market["circuit_open"]) == (3, True)
    assert (market["last_scrape_status"], market["last_scrape_at"]) == ("failed", None)
    runs = len(rentals.apify.runs)
    await rentals.pass_time(hours=25)  # past 03:00 of the next day: the next dispatch tries once more
    assert len(rentals.apify.runs) == runs + 1
    assert (await rentals.market("nyc"))["consecutive_failures"] == 3


@pytest.mark.parametrize(
    ("limit", "value", "allowed"),
    [("max_requests_per_hour", 3, 3), ("max_requests_per_day", 5, 5), ("max_usd_per_month", 20_000, 2)],
)
async def test_a_limit_of_the_data_source_holds_to_the_unit_and_is_no_failure__LI_7(
    simulated: OpenRentals, limit: str, value: int, allowed: int
) -> None:
    """The money is 2 dollars; every run may cost one until it has ended, and costs a cent then."""
    rentals = await simulated(**SMALL)
    await rentals.app.database.write(f"UPDATE data_sources SET {limit} = :value", {"value": value})
    await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
    await rentals.pass_time(seconds=15)
    if limit != "max_usd_per_month":
        await rentals.pass_time(seconds=300)
        assert len(rentals.apify.runs) == allowed
    running = [run for run in rentals.apify.runs if run.state(rentals.apify.time.seconds(), rentals.apify.config)]
    assert len(running) <= max(allowed, 2)
    await rentals.pass_time(seconds=300)
    markets = await rentals.get("/admin/markets")
    assert {each["consecutive_failures"] for each in markets} == {0}
    skipped = await rentals.rows("SELECT reason FROM market_scrapes WHERE status = 'skipped'")
    assert {row["reason"] for row in skipped} == {"limit"}
    assert len(skipped) == 19 - len(rentals.apify.runs)
    if limit == "max_requests_per_hour":
        await rentals.pass_time(hours=1)
        await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
        await rentals.pass_time(seconds=300)
        assert len(rentals.apify.runs) == 2 * allowed


async def test_a_scrape_that_hangs_for_30_minutes_is_failed_by_maintenance_and_counted__LI_17(
    simulated: OpenRentals,
) -> None:
    rentals = await simulated(**SMALL)
    await rentals.keep_only("nyc")
    made = await rentals.client.post("/api/admin/markets/nyc/scrape")
    await rentals.pass_time(seconds=10)
    await rentals.apify.fail(Outage.ERROR)
    await rentals.app.database.write("UPDATE market_scrapes SET run_started_at = run_started_at - 1800000")
    await rentals.app.submit("listings", {"action": "cleanup_maintenance"})
    await rentals.pass_time(seconds=60)
    market = await rentals.market("nyc")
    job = await rentals.get(f"/jobs/{made.json()['data']['job_id']}")
    assert (market["consecutive_failures"], market["last_scrape_status"]) == (1, "failed")
    assert market["scrapes"][0]["reason"] == "stale"
    assert job["state"] == "cancelled"
    assert market["scraping_job"] is None


async def test_the_api_answers_through_48_hours_without_upstreams_and_scrapes_resume__LI_18(
    simulated: OpenRentals,
) -> None:
    rentals = await simulated(**SMALL, schedules=True)
    await rentals.keep_only("nyc", "hartford")
    await rentals.pass_time(hours=2)
    assert len(await rentals.get("/listings")) == 6
    await rentals.apify.fail(Outage.REFUSED)
    for _ in range(16):
        await rentals.pass_time(hours=3)
        for path in ("/listings", "/listings?min_confidence=0&inactive=true", "/admin/markets", "/admin/markets/nyc"):
            answered = await rentals.client.get(f"/api/v1{path}")
            assert answered.status_code < 500, (path, answered.text)
    assert (await rentals.market("nyc"))["circuit_open"]
    await rentals.apify.fail(None)
    await rentals.pass_time(hours=26)
    assert {each["market_id"] for each in await rentals.get("/listings")} == {"nyc", "hartford"}
    assert (await rentals.market("nyc"))["last_scrape_status"] == "completed"


async def test_runs_that_the_account_has_no_room_for_are_started_later__LI_10(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL, memory_limit_mb=8 * 1024)
    await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
    await rentals.pass_time(seconds=900)
    assert {each["last_scrape_status"] for each in await rentals.get("/admin/markets")} == {"completed"}


async def test_metrics_show_late_and_stopped_markets_and_stale_listings__LI_5(simulated: OpenRentals) -> None:
    rentals = await simulated(**SMALL)
    await rentals.keep_only("nyc", "newark")
    assert (await _figures(rentals))["forager_market_late_seconds"] == 0, "one that was never scraped is not late"
    await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
    await rentals.pass_time(seconds=600)
    fresh = await _figures(rentals)
    assert (fresh["forager_markets_enabled"], fresh["forager_markets_stopped"]) == (2, 0)
    assert (fresh["forager_listings_active"], fresh["forager_listings_stale"]) == (6, 0)
    await rentals.app.database.write("UPDATE market_configs SET consecutive_failures = 3 WHERE id = 'newark'")
    await rentals.pass_time(hours=48)
    late = await _figures(rentals)
    assert late["forager_markets_stopped"] == 1
    assert late["forager_market_late_seconds"] > 40 * 3600
    hour_ago = round((await rentals.app.ledger.now() - timedelta(hours=1)).timestamp() * 1000)
    await rentals.app.database.write("UPDATE listings SET verify_at = :at", {"at": hour_ago})
    stale = await _figures(rentals)
    assert (stale["forager_listings_stale"], round(stale["forager_listings_stale_seconds"])) == (6, 3_600)


async def _figures(rentals: Rentals) -> dict[str, float]:
    return {each.name: each.value for each in await figures(rentals.app)}
