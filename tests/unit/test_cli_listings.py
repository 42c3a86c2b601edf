"""`forager markets` and `forager listings` on a store of its own, without a worker."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forager.pipelines.listings.cli.listings import badge_of
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sdk.cli import render
from tests.support.cli import Forager


@pytest.mark.usefixtures("store")
def test_the_markets_of_the_install_are_listed_and_a_city_is_one_command__LI_1__LI_2(forager: Forager) -> None:
    assert len(forager("markets", "list", "--json").data) == 19
    ran = forager("markets", "add", "worcester", "--city", "Worcester", "--state", "MA", "--tier", "cool")
    assert (ran.code, ran.out.strip()) == (0, "Added worcester: every 24 hours.")
    assert "every 6 hours" in forager("markets", "set", "worcester", "--tier", "hot").out
    assert "every 3 hours" in forager("markets", "set", "worcester", "--hours", "3").out
    assert "every 6 hours" in forager("markets", "set", "worcester", "--hours", "0").out
    assert "disabled" in forager("markets", "disable", "worcester").out
    listed = forager("markets", "list").out
    assert "Worcester" in listed
    lines = [line for line in listed.splitlines() if "washington-dc" in line]
    assert len(lines) == 1, "each market on one line of 80 columns, with its whole id"
    assert "Washington DC" in lines[0]
    assert "DC, DC" not in lines[0]
    assert "Boston, MA" in listed
    assert "ago" not in listed, "a scrape that is planned is due, or to come"
    assert "disabled" in listed
    assert "Removed." in forager("markets", "remove", "worcester").out
    assert forager("markets", "show", "worcester").code != 0
    assert "0 active of 0" in forager("markets", "show", "nyc").out


@pytest.mark.parametrize(("given", "wrong"), [("-1", "at least 0"), ("1.5", "whole number"), ("abc", "whole number")])
def test_a_limit_that_is_no_count_is_refused_with_the_reason__LI_7(forager: Forager, given: str, wrong: str) -> None:
    refused = forager("markets", "limits", "--per-hour", given)
    assert refused.code == 2
    assert "--per-hour" in refused.err
    assert wrong in refused.err


@pytest.mark.usefixtures("store")
def test_limits_are_shown_and_set__LI_7(forager: Forager) -> None:
    assert "$0.00 (no limit)" in forager("markets", "limits").out
    ran = forager("markets", "limits", "--per-day", "60", "--usd-per-month", "40.5")
    assert ran.code == 0
    assert "0 of 60" in ran.out
    assert "$0.00 of $40.50" in ran.out
    assert "(no limit)" in forager("markets", "limits", "--per-day", "none").out


def test_a_market_that_cannot_be_is_refused_by_its_field__LI_3(forager: Forager) -> None:
    ran = forager("markets", "add", "nowhere", "--city", "Nowhere", "--state", "XX")
    assert ran.code != 0
    assert "--state" in ran.all
    again = forager("markets", "add", "nyc", "--city", "New York", "--state", "NY")
    assert again.code != 0
    assert "already" in again.all


def test_without_a_token_a_scrape_is_refused_with_the_remedy__LI_7(forager: Forager) -> None:
    ran = forager("markets", "scrape", "nyc")
    assert ran.code != 0
    assert "FORAGER_APIFY_TOKEN" in ran.all


@pytest.mark.usefixtures("store")
def test_markets_are_scraped_after_start_and_not_after_stop__LI_21(
    forager: Forager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Set APIFY_TOKEN" in forager("markets", "list").err
    refused = forager("markets", "start")
    assert (refused.code, "APIFY_TOKEN" in refused.err) == (2, True)
    monkeypatch.setenv("APIFY_TOKEN", "s3cret-token")
    listed = forager("markets", "list")
    assert "Nothing is scraped by schedule. 19 markets: about 1,125 runs and $123.80 a month" in listed.err
    assert "Start: forager markets start" in listed.err
    started = forager("markets", "start")
    assert started.code == 0, started.err
    assert "Started. 19 markets" in started.out
    assert "limits --usd-per-month" in started.err
    assert "Nothing is scraped" not in forager("markets", "list").err
    assert not forager("schedules", "show", "dispatch_scrapes", "--json").data["paused"]
    assert forager("schedules", "show", "dispatch_scrapes", "--json").data["per_month"]["has_budget"] is False
    assert "Stopped." in forager("markets", "stop").out
    assert forager("schedules", "show", "dispatch_scrapes", "--json").data["paused"]
    assert "Nothing is scraped" in forager("markets", "list").err
    resumed = forager("schedules", "resume", "dispatch_scrapes").out
    assert resumed.startswith("Resumed.\nIt costs"), resumed
    assert "123.80" in resumed


@pytest.mark.usefixtures("store")
def test_a_tier_that_is_mistyped_is_refused_with_the_tiers_and_shown_if_it_is_stored__LI_1(
    forager: Forager, tmp_path: Path
) -> None:
    for command in (
        ("add", "worcester", "--city", "Worcester", "--state", "MA", "--tier", "warm"),
        ("set", "nyc", "--tier", "warm"),
    ):
        refused = forager("markets", *command)
        assert refused.code == 2
        assert "--tier: choose from 'hot', 'standard' or 'cool'" in refused.err
    database = sqlite3.connect(tmp_path / ".forager" / "ledger.db")
    database.execute("UPDATE market_configs SET tier = 'warm' WHERE id = 'hartford'")
    database.commit()
    database.close()
    listed = forager("markets", "list")
    assert ["invalid" in line for line in listed.out.splitlines() if "hartford" in line] == [True]
    assert "hartford is not scraped: tier: choose from 'hot', 'standard' or 'cool'" in listed.err
    assert len(forager("markets", "list", "--json").data) == 19
    assert forager("markets", "set", "hartford", "--tier", "cool").code == 0
    assert "not scraped:" not in forager("markets", "list").err


def test_doctor_names_the_token_that_scrapes_need(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Set APIFY_TOKEN" in forager("doctor").out
    monkeypatch.setenv("APIFY_TOKEN", "s3cret-token")
    ran = forager("doctor")
    assert "a token is set" in ran.out
    assert "s3cret-token" not in ran.all


@pytest.mark.usefixtures("store")
def test_an_unknown_listing_is_reported_as_unknown__LI_14(forager: Forager) -> None:
    assert forager("listings", "search", "--market", "nyc", "--json").data == []
    for command in ("show", "history", "why", "verify"):
        ran = forager("listings", command, "7")
        assert ran.code != 0, command
        assert "There is no listing 7." in ran.all


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        ({"badge": {"color": "orange", "text": "May no longer be available"}}, "May no longer be available"),
        ({"badge": None, "gone_reason": "soft_404"}, "soft 404"),
        ({"badge": None, "gone_reason": None}, "not shown"),
    ],
)
def test_a_badge_and_a_confidence_are_shown_as_text_without_markup__LI_14(
    listing: dict[str, object], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    render.out().print(render.facts([("badge", badge_of(listing)), ("confidence", 99)]))

    assert capsys.readouterr().out.split() == ["badge", *told.split(), "confidence", "99"]


@pytest.fixture
def apify() -> Iterator[ApifySandbox]:
    """In its own loop: a command also has one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = ApifySandbox(ApifyConfig(homes=12, queue_seconds=0.1, run_seconds=0.2, settle_seconds=0.0))
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(10)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


def test_a_scrape_prints_its_job_and_result_and_its_listings_can_be_shown__LI_14(
    forager: Forager, apify: ApifySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "APIFY_TOKEN": "sandbox-token",
        "FORAGER_APIFY_BASE_URL": apify.url,
        "FORAGER_APIFY_POLL_SECONDS": "0.1",
        "FORAGER_APIFY_COST_DELAY_SECONDS": "0",
        "FORAGER_EGRESS_ALLOW": apify.url.removeprefix("http://"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    ran = forager("markets", "scrape", "boston")

    (job,) = forager("jobs", "list", "--json").data
    assert (ran.code, ran.err.splitlines()[0]) == (0, f"Job {job['id']}")
    figures = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert (figures["state"].strip(), figures["cost"][:3]) == ("completed", "$0.")
    listing = forager("listings", "search", "--market", "boston", "-n", "1", "--json").data[0]
    with_units = next(each for each in forager("listings", "search", "-n", "50", "--json").data if each["units"])
    unit = with_units["units"][0]
    query = ("--beds", str(unit["beds"]), "--min-rent", str(int(unit["rent"])), "--max-rent", str(int(unit["rent"])))
    zip_and_city = ("--zip", with_units["zip"], "--city", with_units["city"].lower(), "--sort", "rent")
    (found,) = forager("listings", "search", *query, *zip_and_city, "--json").data
    assert (found["id"], unit in found["matching_units"]) == (with_units["id"], True)
    text = forager("listings", "search", *query, "--text", with_units["title"], "--units").out
    assert f"${unit['rent']:,.0f}" in text
    assert f"{unit['area']:,.0f} sq ft" in text
    assert forager("listings", "search", "--beds", "77").out == ""
    assert "choose from" in forager("listings", "search", "--sort", "cheap").err
    shown = forager("listings", "show", str(listing["id"]))
    assert shown.code == 0
    assert f"confidence     {listing['freshness_confidence']}" in shown.out
    assert "[" not in shown.out, "markup is not shown"
