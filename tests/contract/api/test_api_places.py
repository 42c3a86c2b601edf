"""Places and records as they are read and downloaded, and the errors of a wrong question."""

import csv
import io
from typing import Any

import orjson
import pytest

from forager.sdk.tabular import CsvTable, harmless
from tests.support.api import JOB, Front


async def test_places_are_found_by_filter_and_cursor(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85002"], pages=1)
    await front.work()
    every: list[dict[str, Any]] = []
    cursor = None
    while True:
        query = {"limit": 7} | ({"cursor": cursor} if cursor else {})
        page = (await front.client.get("/api/v1/places", params=query)).json()
        every += page["data"]
        cursor = page["meta"]["next_cursor"]
        if cursor is None:
            break
    uids = [place["place_uid"] for place in every]
    assert uids == sorted(set(uids))
    assert len(uids) == (await front.data(f"/api/v1/jobs/{job}"))["discoveries"]
    in_zip = await front.data("/api/v1/places", zip="85001")
    assert 0 < len(in_zip) < len(uids)
    assert len(await front.data("/api/v1/places", job=job)) == len(uids)
    assert await front.data("/api/v1/places", zip="85001", keyword="pubs") == []
    known = every[0]
    assert await front.data("/api/v1/places", title=known["title"][:5].upper(), zip="99999") == []


async def test_a_filter_reads_what_it_is_given_as_a_job_does(front: Front) -> None:
    job = await front.create(keyword="wine  bars", zips=["85001"], pages=1)
    await front.work()
    every = await front.data("/api/v1/places")
    assert every
    for asked in (
        {"state": "az"},
        {"state": " Az "},
        {"zip": " 85001 "},
        {"keyword": "WINE Bars"},
        {"keyword": " wine  bars "},
        {"keyword": "Wine bars", "zip": "85001", "job": job},
    ):
        assert await front.data("/api/v1/places", **asked) == every, asked
    for nothing in ({"state": "MA"}, {"keyword": "wine"}, {"zip": "85002"}):
        assert await front.data("/api/v1/places", **nothing) == [], nothing


async def test_a_place_is_shown_with_its_history__PL_13(front: Front) -> None:
    await front.create()
    await front.work()
    place = (await front.data("/api/v1/places", limit=1))[0]
    assert await front.data(f"/api/v1/places/{place['place_uid']}") == place
    (first,) = await front.data(f"/api/v1/places/{place['place_uid']}/history")
    assert (first["op"], first["version"]) == ("new", 1)
    for path in ("/api/v1/places/nowhere", "/api/v1/places/nowhere/history"):
        assert (await front.client.get(path)).status_code == 404


WRONG_QUESTIONS = (
    {"zpi": "85001"},
    {"limit": "0"},
    {"limit": "1001"},
    {"limit": "many"},
    {"limit": "9" * 40},
    {"cursor": "not a cursor!"},
    {"cursor": "WzFd"},
    {"cursor": "WzE4NDQ2NzQ0MDczNzA5NTUxNjE1XQ"},
    {"min_rating": "nan"},
    {"min_rating": "6"},
    {"job": "12"},
    {"zip": "abc"},
    {"zip": "8500"},
    {"zip": ""},
    {"state": "Arizona"},
    {"state": ""},
    {"keyword": " "},
)


async def test_a_wrong_question_is_answered_with_the_field(front: Front) -> None:
    for query in WRONG_QUESTIONS:
        refused = await front.client.get("/api/v1/places", params=query)
        assert refused.status_code == 422, (query, refused.text)
        assert refused.json()["meta"]["fields"][0]["field"] == next(iter(query))
    (wrong,) = (await front.client.get("/api/v1/places", params={"zip": "abc"})).json()["meta"]["fields"]
    assert wrong == {"field": "zip", "message": "a ZIP is five digits, leading zeros included; correct 'abc'"}


BAD_JOBS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"state": "AZ"}, "keyword"),
    ({**JOB, "state": "ZA"}, "state"),
    ({**JOB, "pages": 11}, "pages"),
    ({**JOB, "pages": "3"}, "pages"),
    ({**JOB, "pages": 10**30}, "pages"),
    ({**JOB, "keyword": "a\x01b"}, "keyword"),
    ({**JOB, "colour": "red"}, "colour"),
    ({"keyword": "bars", "zips": ["99999"]}, "zips"),
    ({"keyword": "bars", "zips": []}, "zips"),
)


async def test_bad_input_gets_an_error_per_field__PL_1(simple: Front) -> None:
    for body, field in BAD_JOBS:
        for path in ("/api/v1/places/jobs", "/api/v1/places/plan"):
            refused = await simple.client.post(path, json=body)
            assert refused.status_code == 422, (body, refused.text)
            assert field in [wrong["field"] for wrong in refused.json()["meta"]["fields"]]
    assert await simple.data("/api/v1/jobs") == []


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"keyword": "", "state": "XX"}, ["keyword", "state"]),
        ({"keyword": "", "zips": ["00000"], "pages": 99}, ["keyword", "pages", "zips"]),
        ({"keyword": "", "state": "AZ", "zips": ["85001"]}, ["body", "keyword"]),
        ({"keyword": 7}, ["body", "keyword"]),
    ],
)
async def test_all_mistakes_of_a_job_are_reported_in_one_round(
    simple: Front, params: dict[str, Any], fields: list[str]
) -> None:
    refused = await simple.client.post("/api/v1/places/jobs", json=params)
    assert refused.status_code == 422
    assert sorted(error["field"] for error in refused.json()["meta"]["fields"]) == fields


async def test_records_are_downloaded_as_json_lines_and_as_csv(front: Front) -> None:
    job = await front.create()
    await front.work()
    sightings = await front.client.get("/api/v1/export/sighting", params={"job": job})
    rows = [orjson.loads(line) for line in sightings.text.splitlines()]
    assert {row["job"] for row in rows} == {job}
    assert sightings.headers["content-type"] == "application/x-ndjson"
    places = await front.client.get("/api/v1/export/place", params={"format": "csv"})
    table = list(csv.DictReader(io.StringIO(places.text)))
    assert places.headers["content-disposition"] == "attachment; filename=place.csv"
    assert {row["place_uid"] for row in table} == {row["place_uid"] for row in rows}
    paged = await front.data("/api/v1/records/place", limit=3)
    assert len(paged) == 3
    wrong = await front.client.get("/api/v1/export/pet")
    assert wrong.status_code == 422
    assert "place" in wrong.json()["meta"]["fields"][0]["message"]


HIDDEN = tuple(
    f"{unseen}=1+1"
    for unseen in (
        *("\ufeff", "\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\u202e", "\u2066", "\u180e", "\x01", "\x7f"),
        *("\u00a0", "\u3000", "\u2028", "\u0301", "\ufe0f", "\u3164", "\u2800", "\ufeff \u200b\t", "\U000e0020"),
    )
)
"""Formulas behind characters that cannot be seen, which a spreadsheet may drop."""


def test_text_with_a_mark_at_its_beginning_stays_as_it_is() -> None:
    for text in ("\ufeffBar", "Bar =1", "\u200b", "", "e\u0301t\u00e9"):
        assert harmless(text) == text


@pytest.mark.parametrize("text", ["=1+1", "+1 602", "-2", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", *HIDDEN])
def test_a_cell_cannot_be_a_formula__S17(text: str) -> None:
    assert harmless(text) == "'" + text
    (row,) = csv.reader(io.StringIO(CsvTable(["title"]).lines([{"title": text}]).decode(), newline=""))
    assert row[0].startswith("'")


def test_numbers_and_plain_text_are_left_as_they_are__S17() -> None:
    row = {"title": 'Bar, the "Old"', "longitude": -112.07, "rating": None, "tags": ["=1"], "open": True}
    (cells,) = csv.reader(io.StringIO(CsvTable(list(row)).lines([row]).decode(), newline=""))
    assert cells == ['Bar, the "Old"', "-112.07", "", '["=1"]', "True"]
