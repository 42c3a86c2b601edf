"""A scrape of one market through Apify, on both stores."""

import asyncio
from uuid import UUID

import pytest

from forager.pipelines.listings.reports import markets
from forager.sandbox.apify.config import RunRule
from tests.support.listings import MARKETS, Rentals


async def test_a_scrape_stores_the_listings_and_counts_itself__LI_7(rentals: Rentals) -> None:
    job = await rentals.scrape("boston")

    market = await rentals.market("boston")
    listed = rentals.apify.world.listings("Boston, MA", rentals.apify.time.seconds())
    assert (job["state"], job["failed"]) == ("completed", 0), job
    assert market["last_scrape_status"] == "completed"
    assert market["consecutive_failures"] == 0
    (scrape,) = market["scrapes"]
    assert scrape["found"] == scrape["normalised"] == len(listed)
    assert scrape["new"] == market["listings_active"]
    assert float(scrape["cost_usd"]) == pytest.approx(rentals.apify.spent())
    assert rentals.apify.spent() > 0
    found = await rentals.get("/listings", market="boston", limit=100)
    assert len(found) == market["listings_active"]
    assert {each["badge"]["text"] for each in found} == {"Recently verified"}


async def test_five_bad_rows_of_100_are_kept_apart_and_the_market_is_partial__LI_8(rentals: Rentals) -> None:
    rentals.apify.script_runs(RunRule(bad_every=5))
    job = await rentals.scrape("boston")
    market = await rentals.market("boston")
    (scrape,) = market["scrapes"]
    assert (market["last_scrape_status"], market["consecutive_failures"]) == ("partial", 0)
    assert scrape["errors"] == job["rejected"] == scrape["found"] // 5
    assert scrape["normalised"] == scrape["found"] - scrape["errors"]
    rejected = await rentals.get(f"/jobs/{job['id']}/rejected")
    assert all(each["reason"] for each in rejected)


async def test_a_listing_that_is_seen_again_counts_its_sightings_and_brings_no_change__LI_9(rentals: Rentals) -> None:
    await rentals.scrape("boston")
    (before,) = await rentals.rows("SELECT count(*) AS n FROM changes WHERE kind = 'listing'")
    await rentals.scrape("boston")
    (after,) = await rentals.rows("SELECT count(*) AS n FROM changes WHERE kind = 'listing'")
    listings = await rentals.get("/listings", market="boston", limit=100)
    assert {each["times_seen"] for each in listings} >= {2}
    assert after == before
    newest, _ = (await rentals.market("boston"))["scrapes"]
    assert (newest["new"], newest["updated"]) == (0, newest["found"] - newest["merged"])


async def test_one_scrape_of_a_market_runs_at_a_time__LI_3(rentals: Rentals) -> None:
    rentals.apify.script_runs(RunRule(seconds=1.0))
    first = await rentals.client.post(f"{MARKETS}/boston/scrape")
    second = await rentals.client.post("/api/admin/markets/boston/scrape")
    assert (first.status_code, second.status_code) == (202, 409)
    assert first.json()["data"]["job_id"] in second.json()["error"]
    await rentals.until_ended(first.json()["data"]["job_id"])


async def test_of_many_calls_at_once_one_creates_the_scrape__LI_3(
    rentals: Rentals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if every call had looked for a running scrape before any of them created one."""

    async def none_open(_: object) -> dict[str, UUID]:
        return {}

    rentals.apify.script_runs(RunRule(seconds=1.0))
    monkeypatch.setattr(markets, "open_scrapes", none_open)
    answers = await asyncio.gather(*(rentals.client.post(f"{MARKETS}/boston/scrape") for _ in range(8)))
    answers.append(await rentals.client.post(f"{MARKETS}/boston/scrape"))
    assert sorted(answer.status_code for answer in answers) == [202, *[409] * 8]
    (job,) = [answer.json()["data"]["job_id"] for answer in answers if answer.status_code == 202]
    await rentals.until_ended(job)
    assert (await rentals.client.post(f"{MARKETS}/boston/scrape")).status_code == 202, "the next one is a new job"


async def test_a_market_that_a_client_has_read_can_be_sent_back__LI_3(rentals: Rentals) -> None:
    """Sending back the tier's own hours is no override: the next tier still sets them."""
    fields = ("id", "display_name", "city", "state", "tier", "is_enabled", "scrape_frequency_hours")
    body = {name: (await rentals.market("boston"))[name] for name in fields}
    sent = await rentals.client.put("/api/admin/markets/boston", json={**body, "city": "Boston Harbor", "state": "ma"})
    assert sent.status_code == 200, sent.text
    assert (sent.json()["data"]["city"], sent.json()["data"]["state"]) == ("Boston Harbor", "MA")
    assert sent.json()["data"]["frequency_overridden"] is False
    cool = await rentals.client.put(f"{MARKETS}/boston", json={"tier": "cool"})
    assert cool.json()["data"]["scrape_frequency_hours"] == 24
    other = await rentals.client.put(f"{MARKETS}/boston", json={"id": "cambridge"})
    assert (other.status_code, other.json()["meta"]["fields"][0]["field"]) == (422, "id")


async def test_a_row_of_sql_with_any_id_is_managed_by_the_api__LI_1(rentals: Rentals) -> None:
    """Also one with the hours of its tier, as the seed's table has them: a new tier still sets them."""
    await rentals.app.database.write(
        "INSERT INTO market_configs (id, display_name, city, state, tier, scrape_frequency_hours)"
        " VALUES ('San_José', 'San José', 'San Jose', 'CA', 'hot', 6)"
    )
    assert (await rentals.market("San_José"))["frequency_overridden"] is False
    changed = await rentals.client.put(f"{MARKETS}/San_José", json={"tier": "standard"})
    assert changed.json()["data"]["scrape_frequency_hours"] == 12
    assert (await rentals.client.delete(f"{MARKETS}/San_José")).status_code == 200
    assert (await rentals.client.get(f"{MARKETS}/%00")).status_code in (404, 422)
    added = await rentals.client.post(MARKETS, json={"id": "san_jose", "city": "San Jose", "state": "ca"})
    assert (added.status_code, added.json()["data"]["state"]) == (201, "CA")


async def test_a_run_that_has_not_ended_counts_with_its_maximum_cost__LI_7(rentals: Rentals) -> None:
    """Two runs of at most a dollar are under way: of two dollars a month nothing is left, though nothing was spent."""
    rentals.apify.script_runs(RunRule(seconds=3_600.0, times=None))
    await rentals.client.put("/api/v1/admin/data-sources/apify", json={"max_usd_per_month": "2"})
    for market in ("boston", "nyc"):
        assert (await rentals.client.post(f"{MARKETS}/{market}/scrape")).status_code == 202
    async with rentals.patience():
        while len(await rentals.rows("SELECT id FROM source_runs WHERE cost_usd IS NULL")) < 2:
            await rentals.soon()
    source = await rentals.get("/admin/data-sources/apify")
    assert float(source["usd_this_month"]) == 2.0
    refused = await rentals.scrape("philadelphia")
    assert refused["skipped"] == 1
    (scrape,) = (await rentals.market("philadelphia"))["scrapes"]
    assert (scrape["status"], scrape["reason"]) == ("skipped", "limit")
    assert scrape["message"] == "The data source apify has used 2 of the 2 that it may in this month."
    assert len(rentals.apify.runs) == 2, "the month would have been exceeded"


async def test_limits_are_set_in_dollars_and_runs_and_show_what_was_used__LI_7(rentals: Rentals) -> None:
    """Under both prefixes, while the store is open: on SQLite no other process could write them."""
    await rentals.scrape("boston")
    (source,) = await rentals.get("/admin/data-sources")
    assert (source["id"], source["requests_this_hour"], source["requests_today"]) == ("apify", 1, 1)
    assert float(source["usd_this_month"]) == pytest.approx(rentals.apify.spent())
    assert {source[f"max_{name}"] for name in ("requests_per_hour", "requests_per_day", "usd_per_month")} == {None}
    path = "/api/admin/data-sources/apify"
    limited = await rentals.client.put(path, json={"max_requests_per_day": 1, "max_usd_per_month": "12.5"})
    assert (limited.status_code, limited.json()["data"]["max_usd_per_month"]) == (200, "12.5")
    (row,) = await rentals.rows("SELECT max_usd_per_month, max_requests_per_day FROM data_sources")
    assert (row["max_usd_per_month"], row["max_requests_per_day"]) == (125_000, 1)
    await rentals.scrape("boston")
    assert (await rentals.market("boston"))["scrapes"][0]["status"] == "skipped"
    freed = await rentals.client.put(path, json={"max_requests_per_day": None})
    assert (freed.json()["data"]["max_requests_per_day"], freed.json()["data"]["max_usd_per_month"]) == (None, "12.5")
    await rentals.scrape("boston")
    assert (await rentals.market("boston"))["scrapes"][0]["status"] == "completed"
    for wrong in ({"max_requests_per_hour": -1}, {"max_usd_per_month": "0.00001"}, {"is_enabled": None}, {"name": "x"}):
        assert (await rentals.client.put(path, json=wrong)).status_code == 422, wrong
    assert (await rentals.client.get("/api/admin/data-sources/other")).status_code == 404


async def test_markets_come_with_the_install_and_are_changed_by_the_api__LI_1__LI_2__LI_3(rentals: Rentals) -> None:
    listed = await rentals.get("/admin/markets")
    assert len(listed) == 19
    assert {each["id"]: each["scrape_frequency_hours"] for each in listed if each["state"] == "NJ"} == {
        "hoboken": 24,
        "jersey-city": 12,
        "newark": 12,
    }
    body = {"id": "worcester", "city": "Worcester", "state": "MA", "tier": "cool"}
    assert (await rentals.client.post(MARKETS, json=body)).status_code == 201
    assert (await rentals.client.post(MARKETS, json=body)).status_code == 409
    assert (await rentals.client.post(MARKETS, json={**body, "id": "x", "state": "Nowhere"})).status_code == 422
    changed = await rentals.client.put(f"{MARKETS}/worcester", json={"scrape_frequency_hours": 3, "tier": "hot"})
    assert (changed.json()["data"]["scrape_frequency_hours"], changed.json()["data"]["tier"]) == (3, "hot")
    taken_back = await rentals.client.put(f"{MARKETS}/worcester", json={"scrape_frequency_hours": None})
    assert taken_back.json()["data"]["scrape_frequency_hours"] == 6
    assert (await rentals.client.delete("/api/admin/markets/worcester")).status_code == 200
    assert (await rentals.client.get(f"{MARKETS}/worcester")).status_code == 404


async def test_a_city_is_one_insert_and_the_next_dispatch_scrapes_it__LI_1(rentals: Rentals) -> None:
    await rentals.keep_only("none")
    await rentals.app.database.write(
        "INSERT INTO market_configs (id, display_name, city, state) VALUES ('lowell', 'Lowell', 'Lowell', 'MA')"
    )
    (market,) = await rentals.get("/admin/markets")
    assert (market["tier"], market["is_enabled"], market["max_listings_per_scrape"]) == ("standard", True, 100)
    await rentals.app.database.write(
        "INSERT INTO market_configs (id, display_name, city, state, is_enabled)"
        " VALUES ('salem', 'Salem', 'Salem', 'MA', false)"
    )
    made = await rentals.app.submit("listings", {"action": "dispatch_scrapes"})
    await rentals.until_ended(str(made.job))
    assert (await rentals.market("lowell"))["scraping_job"] is not None
    assert (await rentals.market("salem"))["scraping_job"] is None
