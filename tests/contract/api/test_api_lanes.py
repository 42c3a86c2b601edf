"""Lanes through the API: shown, paused, and given other rules, also before any job used them."""

from typing import Any

import orjson
import pytest

from forager.core.rules import FIELDS
from forager.core.schedules import Schedule
from tests.support.api import Front

PATH = "/api/v1/lanes"
SHOP = f"{PATH}/shop.example"


async def rules(front: Front, lane: str) -> dict[str, Any]:
    found: dict[str, Any] = (await front.data(f"{PATH}/{lane}"))["rules"]
    return found


async def test_a_domain_without_jobs_shows_the_rules_that_would_hold__SC_7(front: Front) -> None:
    lane = await front.data(f"{PATH}/www.linkedin.com")
    assert (lane["name"], lane["kind"], lane["seen"], lane["paused"]) == ("linkedin.com", "site", False, False)
    assert lane["rules"]["tokens_per_interval"] == {"value": 1.0, "by": "file", "where": "linkedin.com"}
    assert lane["rules"]["allowed_hours"]["value"] == {"start": 6, "end": 22}
    assert lane["rules"]["respect_robots_txt"]["value"] is True
    assert lane["rules"]["max_concurrent_requests"]["by"] == "pipeline", "of all that could use it, the slower"
    assert set(lane["rules"]) == set(FIELDS)
    assert lane["breaker"] == {"state": "closed", "calls": 0, "failures": 0, "probe_at": None}
    assert lane["overrides"] is None
    assert await front.data(PATH) == [], "looking makes no lane"


async def test_an_api_shows_its_pipelines_numbers(front: Front) -> None:
    await front.create()
    await front.work()
    lane = await front.data(f"{PATH}/serper")
    assert (lane["kind"], lane["seen"], lane["breaker"]) == ("api", True, None)
    assert lane["rules"]["tokens_per_interval"] == {"value": 300, "by": "pipeline", "where": "serper"}


async def test_overrides_are_changed_in_parts_replaced_and_cleared(front: Front) -> None:
    patched = await front.client.patch(f"{SHOP}/rules?new=true", json={"tokens_per_interval": 4, "use_proxies": False})
    assert patched.status_code == 200, patched.text
    assert patched.json()["data"]["overrides"] == {"tokens_per_interval": 4, "use_proxies": False}
    again = await front.client.patch(
        f"{SHOP}/rules", json={"use_proxies": None, "allowed_hours": {"start": 22, "end": 6}}
    )
    said = again.json()["data"]
    assert said["overrides"] == {"tokens_per_interval": 4, "allowed_hours": {"start": 22, "end": 6}}
    assert said["rules"]["tokens_per_interval"] == {"value": 4, "by": "operator", "where": "shop.example"}
    assert said["rules"]["interval_seconds"]["by"] == "pipeline"
    put = await front.client.put(f"{SHOP}/rules", json={"block_resources": ["font", "image"]})
    assert put.json()["data"]["overrides"] == {"block_resources": ["image", "font"]}
    (listed,) = await front.data("/api/v1/overrides")
    assert (listed["name"], listed["rules"]) == ("shop.example", {"block_resources": ["image", "font"]})
    assert (await front.client.delete(f"{SHOP}/rules")).json()["data"] == {"cleared": "shop.example"}
    assert await front.data("/api/v1/overrides") == []
    assert (await front.client.delete(f"{SHOP}/rules")).status_code == 404
    assert (await rules(front, "shop.example"))["tokens_per_interval"]["by"] == "pipeline"


async def test_a_domain_with_rules_of_its_own_is_a_lane_of_its_own(simple: Front) -> None:
    await simple.client.patch(f"{PATH}/jobs.linkedin.com/rules", json={"tokens_per_interval": 3})
    assert (await simple.data(f"{PATH}/de.jobs.linkedin.com"))["name"] == "jobs.linkedin.com"
    said = await rules(simple, "jobs.linkedin.com")
    assert (said["tokens_per_interval"]["by"], said["interval_seconds"]["where"]) == ("operator", "linkedin.com")


async def test_a_lane_is_paused_and_resumed_before_and_after_its_first_job(front: Front) -> None:
    paused = await front.client.post(f"{SHOP}/pause?new=true")
    assert (paused.json()["data"]["paused"], paused.json()["data"]["seen"]) == (True, True)
    resumed = await front.client.post(f"{SHOP}/resume")
    assert resumed.json()["data"]["paused"] is False
    assert (await front.client.post(f"{PATH}/never.example/resume")).status_code == 404
    assert (await front.client.post(f"{PATH}/serper/pause")).json()["data"]["paused"] is True
    job = await front.create()
    session = await front.app.ledger.begin("another worker")
    assert not await front.app.ledger.take_lanes(session, 10), "nobody works in a paused lane"
    await front.app.ledger.end(session)
    await front.client.post(f"{PATH}/serper/resume")
    await front.work()
    assert (await front.data(f"/api/v1/jobs/{job}"))["completed"] == 1


async def test_what_is_paused_is_inactive_in_the_table_of_domains__PR_7(front: Front) -> None:
    for name in ("shop.example", "serper"):
        await front.client.post(f"{PATH}/{name}/pause?new=true")
        seen = await front.app.domains.changed_since(None)
        assert seen is not None
        assert name in seen.inactive
        await front.client.post(f"{PATH}/{name}/resume")
    seen = await front.app.domains.changed_since(None)
    assert seen is not None
    assert seen.inactive == frozenset()


async def test_the_list_of_lanes_shows_a_switched_off_lane_as_its_own_page_does__PR_7(front: Front) -> None:
    for name in ("shop.example", "other.example"):
        await front.client.post(f"{PATH}/{name}/pause?new=true")
        await front.client.post(f"{PATH}/{name}/resume")
    await front.app.domains.switch("shop.example", active=False)
    listed = {lane["name"]: lane["paused"] for lane in await front.data(PATH)}
    assert listed == {"shop.example": True, "other.example": False}


async def test_a_domain_that_is_switched_off_is_paused__PR_7(front: Front) -> None:
    await front.app.domains.switch("shop.example", active=False)
    shown = await front.data(SHOP)
    assert (shown["paused"], shown["open_now"], shown["opens_at"]) == (True, False, None)
    assert (await front.client.post(f"{SHOP}/resume")).json()["data"]["paused"] is False


async def test_a_host_in_another_lane_is_not_paused_by_mistake(simple: Front) -> None:
    refused = await simple.client.post(f"{PATH}/www.linkedin.com/pause")
    assert refused.status_code == 422
    assert refused.json()["meta"]["fields"] == [
        {"field": "lane", "message": "belongs to the lane linkedin.com; name that one"}
    ]
    assert await simple.data(PATH) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tokens_per_interval": 0}, "tokens_per_interval"),
        ({"tokens_per_interval": "many"}, "tokens_per_interval"),
        ({"tokens_per_interval": True}, "tokens_per_interval"),
        ({"interval_seconds": -1}, "interval_seconds"),
        ({"min_delay_ms": 10, "max_delay_ms": 5}, "max_delay_ms"),
        ({"min_delay_ms": 3000}, "max_delay_ms"),
        ({"min_delay_ms": 0.5}, "min_delay_ms"),
        ({"allowed_hours": {"start": 5, "end": 5}}, "allowed_hours.end"),
        ({"allowed_hours": {"start": 24, "end": 5}}, "allowed_hours.start"),
        ({"allowed_hours": {"start": 2}}, "allowed_hours.end"),
        ({"allowed_hours": "night"}, "allowed_hours"),
        ({"block_resources": ["video"]}, "block_resources.0"),
        ({"max_concurrent_requests": 0}, "max_concurrent_requests"),
        ({"respect_robots_txt": "no"}, "respect_robots_txt"),
        ({"colour": "red"}, "colour"),
        ({}, "body"),
    ],
)
async def test_rules_that_cannot_hold_are_refused_by_field(simple: Front, body: dict[str, Any], field: str) -> None:
    before = {"max_delay_ms": 1000}
    assert (await simple.client.put(f"{SHOP}/rules?new=true", json=before)).status_code == 200
    refused = await simple.client.patch(f"{SHOP}/rules", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["meta"]["fields"][0]["field"] == field, refused.text
    assert (await simple.data(SHOP))["overrides"] == before


async def test_an_unknown_domain_or_lane_is_refused_by_name(simple: Front) -> None:
    for name in ("two words", "*.example.com", "a..b", "x" * 261):
        for method, path in (
            ("GET", ""),
            ("POST", "/pause"),
            ("POST", "/resume"),
            ("PUT", "/rules"),
            ("DELETE", "/rules"),
        ):
            refused = await simple.client.request(method, f"{PATH}/{name}{path}", json={} if method == "PUT" else None)
            assert refused.status_code == 422, (method, path, refused.text)
            assert refused.json()["meta"]["fields"][0]["field"] == "lane"


async def test_what_is_for_sites_is_refused_for_an_api(simple: Front) -> None:
    refused = await simple.client.patch(f"{PATH}/serper/rules", json={"respect_robots_txt": True, "use_proxies": True})
    assert refused.status_code == 422
    assert [each["field"] for each in refused.json()["meta"]["fields"]] == ["respect_robots_txt", "use_proxies"]
    slower = await simple.client.patch(f"{PATH}/serper/rules", json={"tokens_per_interval": 50})
    assert slower.json()["data"]["rules"]["tokens_per_interval"] == {"value": 50, "by": "operator", "where": "serper"}


async def test_the_state_of_a_lane_is_read_from_what_its_owner_stored(simple: Front) -> None:
    await simple.client.post(f"{SHOP}/pause?new=true")
    now = round((await simple.app.ledger.now()).timestamp() * 1000)
    state = {
        "slow_until": now + 60_000,
        "hold_until": now - 1,
        "crawl_delays": {"https://shop.example": 10, "http://shop.example": 3},
        "breaker": {"state": "open", "calls": "xx.xx", "open_for": 100.0, "at": now},
    }
    database = simple.app.ledger.database
    write = "UPDATE lanes SET state = :state WHERE name = 'shop.example'"
    await database.write(write, {"state": orjson.dumps(state).decode()})
    lane = await simple.data(SHOP)
    assert lane["slow_until"] is not None
    assert lane["hold_until"] is None, "it is over"
    assert lane["crawl_delay_seconds"] == 10
    assert lane["rules"]["crawl_delay_seconds"] == {"value": 10, "by": "robots", "where": "https://shop.example"}
    assert lane["pace"]["seconds"] == 10
    assert "the crawl delay of 10 s (robots.txt of https://shop.example)" in lane["pace"]["message"]
    assert {**lane["breaker"], "probe_at": None} == {"state": "open", "calls": 5, "failures": 4, "probe_at": None}
    state["breaker"] = {"state": "open", "calls": "xxxxx", "open_for": 100.0, "at": now - 101_000}
    await database.write(write, {"state": orjson.dumps(state).decode()})
    assert (await simple.data(SHOP))["breaker"]["state"] == "half_open"
    await database.write(write, {"state": '{"breaker": 7, "slow_until": "x", "crawl_delays": []}'})
    assert (await simple.data(SHOP))["breaker"]["state"] == "closed"


async def test_an_unknown_lane_is_refused_with_similar_names(front: Front) -> None:
    await front.client.post(f"{SHOP}/pause?new=true")
    for name, near in (("serpr", "'serper'"), ("shop.exampel", "'shop.example'"), ("linkedin.co", "'linkedin.com'")):
        for method, path in (("POST", "/pause"), ("POST", "/resume"), ("PUT", "/rules"), ("PATCH", "/rules")):
            body = {"tokens_per_interval": 1} if path == "/rules" else None
            refused = await front.client.request(method, f"{PATH}/{name}{path}", json=body)
            assert refused.status_code == 404, (method, path, refused.text)
            assert f"There is no lane '{name}'. Did you mean {near}" in refused.json()["error"]
            how = "--new" in refused.json()["error"]
            assert how is (path != "/resume"), "how a site is named before its first page, where that is possible"
    assert (await front.client.get(f"{PATH}/serpr")).status_code == 404
    assert [each["name"] for each in await front.data(PATH)] == ["shop.example"], "none was made"
    assert await front.data("/api/v1/overrides") == []
    allowed = await front.client.patch(f"{PATH}/new.example/rules?new=true", json={"tokens_per_interval": 1})
    assert allowed.status_code == 200, allowed.text
    again = await front.client.patch(f"{PATH}/new.example/rules", json={"tokens_per_interval": 2})
    assert again.status_code == 200, "it is known now"


async def test_the_rule_that_decides_how_fast_a_lane_is_is_named(simple: Front) -> None:
    body = {"tokens_per_interval": 30, "interval_seconds": 1, "min_delay_ms": 2000, "max_delay_ms": 4000}
    slow = (await simple.client.patch(f"{SHOP}/rules?new=true", json=body)).json()["data"]["pace"]
    assert (slow["seconds"], slow["rules"]) == (3.0, ["min_delay_ms", "max_delay_ms"])
    assert "the random pause of 2 to 4 s (operator rule for shop.example) is slower than the rate" in slow["message"]
    crawl = (await simple.client.patch(f"{SHOP}/rules", json={"crawl_delay_seconds": 7})).json()["data"]["pace"]
    assert (crawl["seconds"], crawl["rules"]) == (7.0, ["crawl_delay_seconds"])
    quick = {"crawl_delay_seconds": 0, "min_delay_ms": 0, "max_delay_ms": 0}
    fast = (await simple.client.patch(f"{SHOP}/rules", json=quick)).json()["data"]["pace"]
    assert (round(fast["seconds"], 4), fast["rules"]) == (0.0333, ["tokens_per_interval", "interval_seconds"])


async def test_unknown_names_are_refused_with_similar_names(simple: Front) -> None:
    client = simple.client
    params = {"keyword": "bars", "zips": ["85001"], "max_credits": 10}
    await simple.app.put_schedule(Schedule("nightly", "places", params, every=3600.0))
    recheck = (await simple.app.rechecks.statuses())[0].name
    market = (await simple.data("/api/v1/admin/markets"))[0]["id"]
    for method, path, near in (
        ("POST", "/sinks/webhok/pause", "'webhook'"),
        ("GET", "/sinks/serch", "'search'"),
        ("POST", "/schedules/nightli/pause", "'nightly'"),
        ("DELETE", "/schedules/nightl", "'nightly'"),
        ("POST", f"/rechecks/{recheck[:-1]}/pause", repr(recheck)),
        ("GET", "/jobs?pipeline=placs", "'places'"),
        ("GET", "/records/plce", "'place'"),
        ("GET", "/changes?kinds=plce", "'place'"),
        ("GET", f"/admin/markets/{market}x", repr(market)),
    ):
        refused = await client.request(method, f"/api/v1{path}")
        assert refused.status_code in (404, 422), (path, refused.text)
        assert f"id you mean {near}" in refused.text, (path, refused.text)
