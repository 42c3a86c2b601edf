"""Every pipeline has the same commands for its records, on a store with a few of them."""

import contextlib
import csv
import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from forager.app.features import FEATURES
from forager.cli.feature_commands import FeatureCommand
from forager.cli.record_commands import _columns, _rows_of
from forager.pipelines.places.reports import city_and_zip
from tests.support.cli import Forager

WITH_KIND = [feature for feature in FEATURES if feature.kind is not None and feature.commands is not None]


@pytest.mark.parametrize("feature", WITH_KIND, ids=lambda feature: feature.name)
def test_the_group_of_a_pipeline_has_the_commands_of_records_and_keeps_its_own(feature: object) -> None:
    from forager.sdk.feature import Feature

    assert isinstance(feature, Feature)
    assert feature.commands is not None
    own = FeatureCommand(feature.name, "", feature.commands).loaded().commands
    all_ = FeatureCommand(feature.name, "", feature.commands, feature.kind).loaded().commands

    assert {"list", "search", "show", "history", "changes", "export"} <= set(all_)
    assert set(own) <= set(all_)
    assert [
        name for name in own if getattr(all_[name].callback, "__module__", "") == "forager.cli.record_commands"
    ] == []


def test_the_columns_of_a_list_begin_with_the_key_and_the_fields_that_people_look_for() -> None:
    rows = [{"version": 1, "decay": 0.5, "listing_key": "a:1", "units": [], "city": "Boston", "title": "Mill House"}]
    assert _columns(rows, "listing_key") == ["listing_key", "title", "city", "decay"]


def test_a_key_stands_whole_in_a_narrow_list_and_a_long_one_wraps() -> None:
    from rich.console import Console

    long = "177442448323646442302_1281618532210961678_AbFvOqmtaWNoZWxsZQ"
    for key in ("10071271810760386647", long):
        rows = [{"version": 1, "place_uid": key, **{f"field_{n}": "word " * 20 for n in range(8)}}]
        console = Console(width=80, color_system=None)
        with console.capture() as shown:
            console.print(_rows_of(rows, "place_uid", 80))
        first = "".join(line[:40].split(" ")[0] for line in shown.get().splitlines()[2:])
        assert first == key


def test_a_list_begins_with_the_key_of_its_kind_whatever_its_name() -> None:
    assert _columns([{"version": 1, "task_key": None, "url": "u", "watch": "w"}], "watch") == ["watch", "url"]


def test_an_empty_store_has_no_records_and_an_export_of_it_is_empty(forager: Forager, tmp_path: Path) -> None:
    assert forager("db", "upgrade").code == 0
    listed = forager("places", "list")
    assert (listed.code, listed.out) == (0, "")
    assert "No records of the kind place." in listed.err
    assert forager("places", "list", "--json").data == []
    assert forager("reviews", "export").out == ""
    assert forager("places", "show", "nope").code == 4


@pytest.mark.parametrize("group", ["places", "products", "listings", "scrape"])
def test_a_pipeline_that_costs_has_run_and_plan(group: str) -> None:
    feature = next(each for each in FEATURES if each.name == group)
    assert feature.commands is not None
    commands = FeatureCommand(feature.name, "", feature.commands, feature.kind).loaded().commands

    assert {"run", "plan"} <= set(commands)
    assert "plan" not in [each.name for each in commands["plan"].params]


def test_the_plan_of_a_crawl_fetches_nothing_and_creates_no_store(forager: Forager) -> None:
    planned = forager("products", "plan", "https://shop.example/", "--follow", "--max-pages", "40", "--json")

    assert planned.code == 0, planned.err
    assert (
        planned.data
        == forager("crawl", "https://shop.example/", "--follow", "--max-pages", "40", "--plan", "--json").data
    )
    assert not Path(".forager").exists()


def test_the_plan_of_listings_is_what_a_month_costs(forager: Forager) -> None:
    assert "a month, at most $" in forager("listings", "plan").out
    assert not Path(".forager").exists()


def test_places_are_searched_by_word_and_exported_with_keyword_zip_and_city_first(
    forager: Forager, store: Path
) -> None:
    address = "12 E Adams St, Phoenix, AZ 85004"
    with contextlib.closing(sqlite3.connect(store / "ledger.db")) as db, db:
        for n, (uid, title, where) in enumerate(
            [("9523048712390481237", "The Copper Still", address), ("b", "Mill House", "by the river")]
        ):
            db.execute(
                "INSERT INTO places (place_uid, title, address, version, first_seen_at, last_seen_at, times_seen,"
                " changed_at) VALUES (?, ?, ?, 1, ?, 1, 1, 1)",
                (uid, title, where, n),
            )
            for job, keyword in ((1, "bars"), (2, "pubs")):
                db.execute(
                    "INSERT INTO sightings (job_id, keyword, zip, place_uid, version, first_seen_at, last_seen_at,"
                    " times_seen) VALUES (?, ?, '85001', ?, 1, 1, 1, 1)",
                    (job, keyword, uid),
                )

    assert [row["title"] for row in forager("places", "search", "COPPER", "--json").data] == ["The Copper Still"]
    assert "No record of the kind place matches." in forager("places", "search", "nothing like it").err
    assert forager("places", "search", "--where", "place_uid=b", "--json").data[0]["title"] == "Mill House"
    assert len(forager("places", "search", "--where", "zip=85001", "--json").data) == 2  # as `export --where` has it
    assert forager("places", "search", "--where", "zip=85009", "--json").data == []
    assert "nosuch" in forager("places", "search", "--where", "nosuch=1").err
    assert "9523048712390481237" in forager("places", "list").out
    for command in (["export", "place"], ["places", "export"]):
        forager(*command, "-o", "places.csv")
        header, first, second = csv.reader(Path("places.csv").read_text().splitlines())
        assert header[:4] == ["keyword", "zip", "city", "place_uid"]
        assert first[:4] == ["bars", "85004", "Phoenix", "9523048712390481237"]
        assert second[:4] == ["bars", "85001", "", "b"]
    forager("places", "export", "-o", "places.xlsx")
    with zipfile.ZipFile("places.xlsx") as book:  # as text: a number of 19 digits would lose its end in a spreadsheet
        assert b"<is><t>9523048712390481237</t></is>" in book.read("xl/worksheets/sheet1.xml")
    by_keyword = forager("export", "place", "--where", "keyword=pubs").out.splitlines()
    assert len(by_keyword) == 2
    assert json.loads(forager("export", "place", "--where", "place_uid=b").out)["title"] == "Mill House"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("12 E Adams St, Phoenix, AZ 85004", ("Phoenix", "85004")),
        ("1 Main St, St. Louis, MO 63101-1234, United States", ("St. Louis", "63101")),
        ("Tempe, AZ 85281", ("Tempe", "85281")),
        ("12 E Adams St", (None, None)),
        ("85004", (None, None)),
        (None, (None, None)),
    ],
)
def test_city_and_zip_are_read_from_the_end_of_an_address(
    address: str | None, expected: tuple[str | None, str | None]
) -> None:
    assert city_and_zip(address) == expected
