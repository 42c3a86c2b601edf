"""Schedules through the API: kept, moved, fired, and refused before their first night."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from forager.core.errors import Rejected
from forager.core.schedules import Schedule
from tests.support.api import ONE_QUERY, Front

NIGHTLY: dict[str, Any] = {"pipeline": "places", "params": ONE_QUERY, "cron": "0 3 * * *", "no_budget": True}
BARS = {"keyword": "bars", "state": "AZ"}
PATH = "/api/v1/schedules"


async def test_a_schedule_is_put_listed_shown_replaced_and_removed(front: Front) -> None:
    made = (await front.client.put(f"{PATH}/nightly", json=NIGHTLY)).json()["data"]
    assert (made["name"], made["cron"], made["every"], made["paused"]) == ("nightly", "0 3 * * *", None, False)
    following = datetime.fromisoformat(made["next_at"])
    assert (following.hour, following.minute, following.utcoffset()) == (3, 0, following.utcoffset())
    assert made["params"] == ONE_QUERY
    assert await front.data(PATH) == [made]
    assert await front.data(f"{PATH}/nightly") == made
    hourly = {"pipeline": "places", "params": ONE_QUERY, "every": 3600, "no_budget": True}
    replaced = (await front.client.put(f"{PATH}/nightly", json=hourly)).json()["data"]
    assert (replaced["cron"], replaced["every"]) == (None, 3600)
    assert (await front.client.delete(f"{PATH}/nightly")).json()["data"] == {"removed": "nightly"}
    assert await front.data(PATH) == []


async def test_a_schedule_is_paused_resumed_and_run_by_hand(front: Front) -> None:
    await front.client.put(f"{PATH}/nightly", json=NIGHTLY)
    assert (await front.client.post(f"{PATH}/nightly/pause")).json()["data"]["paused"] is True
    resumed = (await front.client.post(f"{PATH}/nightly/resume")).json()["data"]
    assert resumed["paused"] is False
    fired = await front.client.post(f"{PATH}/nightly/run")
    assert fired.status_code == 202
    job = await front.data(f"/api/v1/jobs/{fired.json()['data']['job_id']}")
    assert (job["schedule"], job["total"]) == ("nightly", 1)
    noted = await front.data(f"{PATH}/nightly")
    assert (noted["last_job"], noted["last_at"] is not None, noted["next_at"]) == (job["id"], True, resumed["next_at"])


async def test_a_schedule_that_could_never_work_is_refused(simple: Front) -> None:
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({**NIGHTLY, "cron": "every day"}, "cron"),
        ({**NIGHTLY, "cron": "0 0 30 2 *"}, "cron"),
        ({**NIGHTLY, "every": 60}, "cron"),
        ({**NIGHTLY, "cron": None}, "cron"),
        ({**NIGHTLY, "cron": None, "every": 0.5}, "every"),
        ({**NIGHTLY, "cron": None, "every": 1e300}, "every"),
        ({**NIGHTLY, "params": {"state": "AZ"}}, "keyword"),
        ({**NIGHTLY, "colour": "red"}, "colour"),
        ({**NIGHTLY, "timezone": "Mars/Olympus"}, "timezone"),
        ({**NIGHTLY, "timezone": "../etc/passwd"}, "timezone"),
        ({**NIGHTLY, "cron": None, "every": 60, "timezone": "Europe/Berlin"}, "timezone"),
    )
    for body, field in bad:
        refused = await simple.client.put(f"{PATH}/nightly", json=body)
        assert refused.status_code == 422, (body, refused.text)
        assert refused.json()["meta"]["fields"][0]["field"] == field, refused.text
    unknown = await simple.client.put(f"{PATH}/nightly", json={**NIGHTLY, "pipeline": "pets"})
    assert unknown.status_code == 404
    assert await simple.data(PATH) == []


@pytest.mark.parametrize("name", ["a/b c", "", "../jobs", "two words", "-x", "ä", "x" * 101, "x\n", "a/pause/b"])
async def test_a_name_that_is_no_part_of_an_address_is_refused_with_the_rule(simple: Front, name: str) -> None:
    at = f"{PATH}/{quote(name, safe='')}"
    for method, path in (("PUT", at), ("GET", at), ("DELETE", at), ("POST", f"{at}/pause"), ("POST", f"{at}/run")):
        refused = await simple.client.request(method, path, json=NIGHTLY)
        assert refused.status_code == 422, (method, path, refused.text)
        (wrong,) = refused.json()["meta"]["fields"]
        assert wrong["field"] == "name"
        assert wrong["message"].endswith("use letters, digits, `.`, `_` and `-`, a letter or digit first, at most 100")
    with pytest.raises(Rejected, match="is not a valid name"):
        await simple.app.put_schedule(Schedule(name, "places", ONE_QUERY, every=60))
    assert await simple.data(PATH) == []


async def test_an_address_beside_those_of_schedules_is_no_question_of_names(simple: Front) -> None:
    said = {}
    for method, path in (("POST", "nightly"), ("GET", "nightly/pause"), ("POST", "nightly/leap")):
        answer = await simple.client.request(method, f"{PATH}/{path}")
        said[method, path] = (answer.status_code, answer.headers.get("allow"))
    assert said == {
        ("POST", "nightly"): (405, "DELETE, GET, PUT"),
        ("GET", "nightly/pause"): (405, "POST"),
        ("POST", "nightly/leap"): (404, None),
    }


async def test_a_schedule_that_is_not_there_is_a_404(simple: Front) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run")):
        missing = await simple.client.request(method, f"{PATH}/nightly{path}")
        assert missing.status_code == 404, (method, path)


@pytest.mark.parametrize(("every", "seconds"), [("6h", 21_600), ("90", 90), (90, 90), ("1.5d", 129_600)])
async def test_an_interval_is_written_as_on_the_command_line(simple: Front, every: str | int, seconds: float) -> None:
    body = {"pipeline": "places", "params": {**BARS, "max_credits": 100}, "every": every}
    kept = await simple.client.put("/api/v1/schedules/bars", json=body)
    assert kept.json()["data"]["every"] == seconds
    wrong = await simple.client.put("/api/v1/schedules/bars", json={**body, "every": "soon"})
    assert "write 90s, 30m, 6h or 1d" in wrong.json()["meta"]["fields"][0]["message"]


async def test_a_schedule_that_costs_money_needs_a_budget_or_a_confirmation_and_shows_its_month(front: Front) -> None:
    often = {"pipeline": "places", "params": BARS, "every": 5}
    refused = await front.client.put(f"{PATH}/bars", json=often)
    assert refused.status_code == 422
    assert [each["field"] for each in refused.json()["meta"]["fields"]] == ["no_budget"]
    assert "525,600 jobs" in refused.json()["error"], "what it would have cost"
    assert "max_credits" in refused.json()["error"]
    assert await front.data(PATH) == []
    plan = (await front.client.post("/api/v1/places/plan", json=BARS)).json()["data"]
    for body, budget in (
        ({**often, "no_budget": True}, False),
        ({**often, "params": {**BARS, "max_credits": plan["worst_credits"]}}, True),
    ):
        kept = (await front.client.put(f"{PATH}/bars", json=body)).json()["data"]
        month = kept["per_month"]
        assert (month["jobs"], month["has_budget"], month["warning"]) == (525_600, budget, None)
        assert float(month["expected_usd"]) == pytest.approx(525_600 * float(plan["expected_usd"]), abs=0.01)
        assert float(month["worst_usd"]) == pytest.approx(525_600 * float(plan["worst_usd"]), abs=0.01)
        assert (await front.data(PATH))[0]["per_month"] == month
    free = {"pipeline": "products", "params": {"urls": ["https://shop.example/p/1"]}, "cron": "0 6 * * *"}
    assert (await front.client.put(f"{PATH}/crawl", json=free)).json()["data"]["per_month"] is None


async def test_a_budget_below_the_estimate_is_accepted_with_a_warning(front: Front) -> None:
    expected = (await front.client.post("/api/v1/places/plan", json=BARS)).json()["data"]["expected_credits"]
    low, enough = {**BARS, "max_credits": expected - 1}, {**BARS, "max_credits": expected}
    for path, body in (("/api/v1/places/jobs", low), ("/api/v1/jobs", {"pipeline": "places", "params": low})):
        made = await front.client.post(path, json=body)
        assert made.status_code == 202
        (warning,) = made.json()["meta"]["warnings"]
        assert f"budget of {expected - 1:,} credits is below the estimate of {expected:,}" in warning
    assert "warnings" not in (await front.client.post("/api/v1/places/jobs", json=enough)).json()["meta"]
    scheduled = {"pipeline": "places", "params": low, "cron": "0 6 * * *"}
    kept = (await front.client.put(f"{PATH}/bars", json=scheduled)).json()["data"]
    assert kept["per_month"]["warning"] == warning


async def test_a_schedule_is_replaced_only_on_request(front: Front) -> None:
    first = (await front.client.put(f"{PATH}/nightly", params={"replace": "false"}, json=NIGHTLY)).json()["data"]
    other = {**NIGHTLY, "cron": "30 4 * * *"}
    refused = await front.client.put(f"{PATH}/nightly", params={"replace": "false"}, json=other)
    assert (refused.status_code, "already" in refused.json()["error"]) == (409, True)
    assert await front.data(f"{PATH}/nightly") == first
    replaced = await front.client.put(f"{PATH}/nightly", params={"replace": "true"}, json=other)
    assert replaced.json()["data"]["cron"] == "30 4 * * *"


async def test_a_cron_expression_has_a_time_zone(front: Front) -> None:
    at_six = {**NIGHTLY, "cron": "0 6 * * *", "timezone": "Asia/Tokyo"}
    kept = (await front.client.put(f"{PATH}/nightly", json=at_six)).json()["data"]
    assert (kept["timezone"], datetime.fromisoformat(kept["next_at"]).hour) == ("Asia/Tokyo", 21)
    resumed = (await front.client.post(f"{PATH}/nightly/resume")).json()["data"]
    assert (resumed["timezone"], resumed["next_at"]) == ("Asia/Tokyo", kept["next_at"])


async def test_wrong_time_zone_and_parameters_are_reported_in_one_answer(front: Front) -> None:
    wrong = {**NIGHTLY, "cron": "every day", "timezone": "Mars/Olympus", "params": {"keywrd": "bars"}}
    refused = await front.client.put(f"{PATH}/wrong", json=wrong)
    assert refused.status_code == 422, refused.text
    for name in ("cron", "timezone", "keywrd"):
        assert name in str(refused.json()["meta"]), refused.text
