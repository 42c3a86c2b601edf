"""Records of any kind: one, its history, a filtered list. Nothing here is written for a pipeline."""

from typing import Any

import pytest

from tests.support.api import Front

TWO_ZIPS = {"keyword": "bars", "zips": ["85001", "85002"], "pages": 1}


async def _pages(front: Front, path: str, **query: Any) -> list[Any]:
    items: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await front.client.get(path, params={**query, **cursor})).json()
        items += page["data"]
        if page["meta"]["next_cursor"] is None:
            return items
        cursor = {"cursor": page["meta"]["next_cursor"]}


async def test_a_record_is_shown_by_its_key_and_by_another_name(front: Front) -> None:
    await front.create()
    await front.work()
    place = (await front.data("/api/v1/records/place", limit=1))[0]

    assert await front.data(f"/api/v1/records/place/{place['place_uid']}") == place
    assert await front.data(f"/api/v1/records/place/{place['cid']}") == place
    missing = await front.client.get("/api/v1/records/place/no/such place")
    assert (missing.status_code, missing.json()["error"]) == (404, "There is no place 'no/such place'.")


async def test_a_record_of_a_job_is_shown_with_its_job(front: Front) -> None:
    job = await front.create()
    await front.work()
    seen = (await front.data("/api/v1/records/sighting", job=job, limit=1))[0]
    path = f"/api/v1/records/sighting/{seen['place_uid']}"

    assert await front.data(path, job=job) == seen
    refused = await front.client.get(path)
    assert refused.status_code == 422
    assert refused.json()["meta"]["fields"] == [{"field": "job", "message": "is needed: a sighting belongs to a job"}]


async def test_a_record_has_its_history(front: Front) -> None:
    await front.create()
    await front.work()
    place = (await front.data("/api/v1/records/place", limit=1))[0]

    (change,) = await front.data(f"/api/v1/records/place/{place['place_uid']}/history")
    assert (change["kind"], change["key"], change["op"]) == ("place", place["place_uid"], "new")
    assert change["body"]["title"] == place["title"]
    assert await front.data(f"/api/v1/records/place/{place['cid']}/history") == [change]
    assert (await front.client.get("/api/v1/records/place/nowhere/history")).status_code == 404


async def test_a_list_and_a_file_are_as_of_a_moment(front: Front) -> None:
    before = (await front.app.ledger.now()).isoformat()
    await front.create()
    await front.work()
    after = (await front.app.ledger.now()).isoformat()
    then = await front.data("/api/v1/records/place", as_of=after, limit=2)
    now = await front.data("/api/v1/records/place", limit=2)
    unknown: dict[str, Any] = {"last_seen_at": None, "times_seen": None}
    assert then == [{**place, **unknown} for place in now]
    for path in ("/api/v1/records/place", "/api/v1/export/place"):
        nothing = await front.client.get(path, params={"as_of": before})
        assert nothing.status_code == 200
        assert "ChIJ" not in nothing.text
        assert "place_uid" not in nothing.text
    file = await front.client.get("/api/v1/export/place", params={"as_of": after})
    assert file.text.splitlines()[0].startswith('{"place_uid"')
    for wrong in ("yesterday", "2026-03-14T12:00:00", "2126-03-14T12:00:00Z"):
        for path in ("/api/v1/records/place", "/api/v1/export/place"):
            refused = await front.client.get(path, params={"as_of": wrong})
            assert refused.status_code == 422, (path, wrong)
            assert "as_of" in refused.text


async def test_a_list_is_filtered_by_the_fields_of_declared_indexes(front: Front) -> None:
    job = await front.create(**TWO_ZIPS)
    await front.work()
    sightings = await _pages(front, "/api/v1/records/sighting")
    in_zip = [each for each in sightings if each["zip"] == "85001"]
    assert 0 < len(in_zip) < len(sightings)

    by_key = sorted(in_zip, key=lambda each: str(each["place_uid"]))
    assert await _pages(front, "/api/v1/records/sighting", zip="85001", limit=3) == by_key
    assert await _pages(front, "/api/v1/records/sighting", zip="85001", job=job, limit=3) == in_zip
    one = in_zip[0]["place_uid"]
    assert await _pages(front, "/api/v1/records/sighting", place_uid=one) == [in_zip[0]]
    assert await _pages(front, "/api/v1/records/sighting", zip="85002", place_uid=one) == []
    lines = (await front.client.get("/api/v1/export/sighting", params={"zip": "85001"})).text.splitlines()
    assert len(lines) == len(in_zip)


async def test_records_of_the_world_are_filtered_too_also_those_of_a_job(front: Front) -> None:
    job = await front.create(**TWO_ZIPS)
    await front.work()
    places = await _pages(front, "/api/v1/records/place")
    category = next(each["category"] for each in places if each["category"])
    wanted = [each for each in places if each["category"] == category]
    assert 0 < len(wanted) < len(places)

    assert await _pages(front, "/api/v1/records/place", category=category, limit=2) == wanted
    of_job = await _pages(front, "/api/v1/records/place", category=category, job=job, limit=2)
    assert sorted(each["place_uid"] for each in of_job) == sorted(each["place_uid"] for each in wanted)


async def test_an_unknown_filter_is_refused_and_so_is_the_cursor_of_another_filter(front: Front) -> None:
    await front.create(**TWO_ZIPS)
    await front.work()

    for path in ("/api/v1/records/sighting", "/api/v1/export/sighting"):
        wrong = await front.client.get(path, params={"color": "red"})
        message = "not a filter of 'sighting'; choose from place_uid, zip"
        assert wrong.status_code == 422
        assert wrong.json()["meta"]["fields"] == [{"field": "color", "message": message}]
    twice = await front.client.get("/api/v1/records/sighting?zip=85001&zip=85002")
    assert twice.json()["meta"]["fields"] == [{"field": "zip", "message": "is given more than once"}]
    first = (await front.client.get("/api/v1/records/sighting", params={"zip": "85001", "limit": 1})).json()
    elsewhere = {"zip": "85002", "cursor": first["meta"]["next_cursor"]}
    assert (await front.client.get("/api/v1/records/sighting", params=elsewhere)).status_code == 422


async def test_a_job_of_any_pipeline_is_priced(simple: Front) -> None:
    job = {"keyword": "bars", "zips": ["85001"], "pages": 2}
    general = await simple.client.post("/api/v1/jobs/plan", json={"pipeline": "places", "params": job})
    own = await simple.client.post("/api/v1/places/plan", json=job)
    assert general.status_code == 200
    assert general.json()["data"] == own.json()["data"]
    target = {"target_type": "job_posting", "target_url": "https://example.com/1", "workspace_id": "acme"}
    free = await simple.client.post("/api/v1/jobs/plan", json={"pipeline": "scrape", "params": {"targets": [target]}})
    assert (free.json()["data"]["pages"], free.json()["data"]["worst_usd"]) == (1, "0")
    unpriced = {"pipeline": "listings", "params": {"action": "verify"}}
    refused = await simple.client.post("/api/v1/jobs/plan", json=unpriced)
    assert (refused.status_code, "has no estimate" in refused.json()["error"]) == (422, True)
    unknown = await simple.client.post("/api/v1/jobs/plan", json={"pipeline": "pets", "params": {}})
    assert unknown.status_code == 404


async def test_kinds_are_listed_with_their_fields_and_filters(simple: Front) -> None:
    kinds = {each["kind"]: each for each in await simple.data("/api/v1/records")}
    assert set(kinds) == set(simple.app.reports.kinds)
    assert kinds["place"]["fields"][0] == "place_uid"
    assert "job" not in kinds["place"]["fields"]
    assert (kinds["sighting"]["fields"][0], kinds["sighting"]["per_job"]) == ("job", True)
    assert {"result", "provenance"} <= set(kinds["scrape_result"]["nested"])
    assert "zip" in kinds["sighting"]["filters"]


@pytest.mark.parametrize("kind", ["place", "scrape_result"])
async def test_a_csv_file_has_its_header_also_without_rows(simple: Front, kind: str) -> None:
    fields = next(each["fields"] for each in await simple.data("/api/v1/records") if each["kind"] == kind)
    file = await simple.client.get(f"/api/v1/export/{kind}", params={"format": "csv"})
    assert file.text.splitlines() == [",".join(fields)]


async def test_records_are_listed_from_either_end(front: Front) -> None:
    await front.create(**TWO_ZIPS)
    await front.work()
    oldest = [each["place_uid"] for each in await _pages(front, "/api/v1/records/place", limit=3)]
    newest = [each["place_uid"] for each in await _pages(front, "/api/v1/records/place", limit=3, order="newest")]
    assert len(newest) > 3
    assert newest == oldest[::-1]
    first = (await front.client.get("/api/v1/records/place", params={"order": "newest", "limit": 3})).json()
    mixed = {"limit": 3, "cursor": first["meta"]["next_cursor"]}
    assert (await front.client.get("/api/v1/records/place", params=mixed)).status_code == 422, "a cursor has its order"
    assert (await front.client.get("/api/v1/records/place", params={"order": "up"})).status_code == 422
    now = (await front.app.ledger.now()).isoformat()
    then = await front.data("/api/v1/records/place", order="newest", as_of=now)
    assert [each["place_uid"] for each in then] == newest
