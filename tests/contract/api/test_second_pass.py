"""A second pass over ZIPs that were cut off: further pages are read once, and only there; neighbouring terms."""

from typing import Any

import orjson
import pytest

from forager.core.errors import Rejected
from forager.pipelines.places.cli import second_pass
from forager.pipelines.places.job import AreaQuery, Query, point_of
from forager.pipelines.places.steps import Serper
from forager.sdk.queries import loads
from tests.support.api import Front


async def states(front: Front, job: str) -> dict[str, str]:
    seen = await front.data("/api/v1/places/coverage", job=job)
    return {each["zip"]: each["state"] for each in seen["zips"]}


async def test_a_second_pass_reads_only_further_pages_of_what_was_cut_off(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85002"], pages=1)
    await front.work()
    before = await states(front, job)
    cut = [code for code, state in before.items() if state == "cut_off"]
    assert cut  # the simulated ZIPs have more than a page
    params = (await front.data(f"/api/v1/jobs/{job}"))["params"]
    seen = await front.data("/api/v1/places/coverage", job=job)
    (second,) = second_pass(params, seen["zips"], [], 3, 50)
    plan = (await front.client.post("/api/v1/places/plan", json=second)).json()["data"]
    assert (plan["queries"], plan["worst_credits"]) == (2 * len(cut), 2 * len(cut))
    asked = len(list(front.sandbox.log.since(0)))
    again = await front.create(**second)
    await front.work()
    calls = list(front.sandbox.log.since(0))[asked:]
    assert {call.page for call in calls} <= {2, 3}
    assert 2 in {call.page for call in calls}
    after = await front.data(f"/api/v1/jobs/{again}")
    assert after["spent"] <= plan["worst_credits"]
    assert set(await states(front, again)) == set(cut)


async def test_a_first_page_behind_the_last_is_refused(simple: Front) -> None:
    body = {"keyword": "bars", "zips": ["85001"], "pages": 3, "first_page": 4}
    got = await simple.client.post("/api/v1/places/jobs", json=body)
    assert got.status_code == 422
    assert "first_page" in got.text


def test_neighbouring_terms_are_a_job_each_with_the_budget_of_each() -> None:
    before = {"keyword": "bars", "state": "AZ", "pages": 3}
    seen = [{"zip": "85001", "state": "cut_off"}, {"zip": "85002", "state": "complete"}]
    jobs = second_pass(before, seen, ["pubs", "wine bar"], None, 40)
    assert jobs == [
        {"keyword": "pubs", "zips": ["85001"], "pages": 3, "max_credits": 40},
        {"keyword": "wine bar", "zips": ["85001"], "pages": 3, "max_credits": 40},
    ]
    assert second_pass(before, [], [], None, None) == []
    with pytest.raises(Rejected, match="neighbouring terms"):
        second_pass({**before, "pages": 10}, seen, [], None, None)


async def test_several_keywords_share_the_areas_and_the_budget_of_one_job(front: Front) -> None:
    job = await front.create(
        keyword="bars", more_keywords=["pubs", "wine bars"], areas=["10115 Berlin", "Leipzig"], country="de", pages=2
    )
    await front.work()
    texts = {f"{area} {keyword}" for area in ("10115 Berlin", "Leipzig") for keyword in ("bars", "pubs", "wine bars")}
    assert {f"{call.zip} {call.keyword}".strip() for call in front.sandbox.log.since(0)} == {t.lower() for t in texts}
    seen = (await front.data("/api/v1/places/coverage", job=job))["zips"]
    assert {(each["zip"], each["keyword"]) for each in seen} == {
        (area, keyword) for area in ("10115 Berlin", "Leipzig") for keyword in (None, "pubs", "wine bars")
    }
    assert {each["pages"] for each in seen} == {2}
    rows = await front.app.database.fetch("SELECT q, zip, page FROM serper_queries WHERE status = 'success'")
    assert {row["q"] for row in rows} == texts
    assert {row["zip"] for row in rows} == {"10115 Berlin", "Leipzig"}
    (totals,) = await front.app.database.fetch("SELECT totals FROM serper_jobs")
    assert loads(totals["totals"])["zips"] == 2
    tight = await front.create(
        keyword="bars", more_keywords=["pubs"], areas=["Hamburg", "Bremen"], country="de", pages=3, max_credits=5
    )
    await front.work()
    assert (await front.data(f"/api/v1/jobs/{tight}"))["spent"] == 5


async def test_a_map_that_was_cut_off_is_split_into_four_closer_maps_of_the_same_area(front: Front) -> None:
    job = await front.create(keyword="bars", areas=["48.137,11.575"], country="de", language="de", pages=1)
    await front.work()
    (call,) = front.sandbox.log.since(0)
    assert call.endpoint == "maps"
    seen = (await front.data("/api/v1/places/coverage", job=job))["zips"]
    assert [(each["zip"], each["state"], each["places"]) for each in seen] == [("48.137,11.575,14", "cut_off", 20)]
    assert (await front.data(f"/api/v1/jobs/{job}"))["spent"] == 3
    params = (await front.data(f"/api/v1/jobs/{job}"))["params"]
    (second,) = second_pass(params, seen, [], None, None, split=True)
    plan = (await front.client.post("/api/v1/places/plan", json=second)).json()["data"]
    assert (plan["queries"], plan["worst_credits"]) == (4, 12)
    again = await front.create(**second)
    await front.work()
    read = (await front.data("/api/v1/places/coverage", job=again))["zips"]
    assert len({each["zip"] for each in read}) == 4
    assert all(each["zip"].endswith(",15") for each in read)
    first = await front.app.database.fetch("SELECT count(*) AS n FROM places")
    assert first[0]["n"] > 20, "the closer maps show places that the first did not"


def test_the_request_names_country_and_language_and_the_viewport_of_a_map() -> None:
    serper = Serper()

    def sent(query: Query) -> Any:
        return orjson.loads(serper.request(query).body or b"")

    local = {"country": "de", "language": "fr"}
    by_name = Query(keyword="bars", zip="10115 Berlin", page=1, pages=1, **local)
    assert sent(by_name) == {"q": "10115 Berlin bars", "page": 1, "num": 10, "gl": "de", "hl": "fr"}
    on_map = AreaQuery(keyword="bars", zip="48.137,11.575,15", page=2, pages=2)
    assert sent(on_map) == {"q": "bars", "page": 2, "ll": "@48.137,11.575,15z"}
    assert serper.request(on_map).url.endswith("/maps")
    assert sent(Query(keyword="bars", zip="85001", page=1, pages=1)) == {"q": "85001 bars", "page": 1, "num": 10}


def test_the_quarters_of_a_map_lie_around_its_middle_and_stay_on_the_globe() -> None:
    middle = point_of("48.137,11.575,14")
    assert middle is not None
    quarters = middle.quarters()
    assert {quarter.zoom for quarter in quarters} == {15}
    assert sum(quarter.latitude for quarter in quarters) / 4 == pytest.approx(middle.latitude)
    assert sum(quarter.longitude for quarter in quarters) / 4 == pytest.approx(middle.longitude)
    east = point_of("0,179.99,10")
    assert east is not None
    assert all(-180 <= quarter.longitude <= 180 for quarter in east.quarters())
    closest = point_of("0,0,21")
    assert closest is not None
    assert closest.quarters() == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"areas": ["Berlin"], "state": "AZ"}, "one of them names where to look"),
        ({"areas": ["95,11.5"]}, "is on no map"),
        ({"areas": ["Berlin", "48.1,11.5"]}, "different prices"),
        ({"areas": ["A/B"]}, "without /"),
        ({"zips": ["85001"], "country": "de"}, "belong to `areas`"),
        ({"zips": ["85001"], "more_keywords": ["bars"]}, "given twice"),
    ],
)
async def test_areas_that_cannot_be_searched_are_refused(simple: Front, wrong: dict[str, Any], message: str) -> None:
    got = await simple.client.post("/api/v1/places/jobs", json={"keyword": "bars", **wrong})
    assert got.status_code == 422
    assert message in got.text
