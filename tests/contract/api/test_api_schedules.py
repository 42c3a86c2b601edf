"""Schedules through the API: kept, moved, fired, and refused before their first night."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from forager.core.errors import Rejected
from forager.core.schedules import Schedule
from tests.support.api import ONE_QUERY, Front

NIGHTLY: dict[str, Any] = {"pipeline": "places", "params": ONE_QUERY, "cron": "0 3 * * *"}
PATH = "/api/v1/schedules"


async def test_a_schedule_is_put_listed_shown_replaced_and_removed(front: Front) -> None:
    made = (await front.client.put(f"{PATH}/nightly", json=NIGHTLY)).json()["data"]
    assert (made["name"], made["cron"], made["every"], made["paused"]) == ("nightly", "0 3 * * *", None, False)
    following = datetime.fromisoformat(made["next_at"])
    assert (following.hour, following.minute, following.utcoffset()) == (3, 0, following.utcoffset())
    assert made["params"] == ONE_QUERY
    assert await front.data(PATH) == [made]
    assert await front.data(f"{PATH}/nightly") == made
    hourly = {"pipeline": "places", "params": ONE_QUERY, "every": 3600}
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
    body = {"pipeline": "places", "params": {"keyword": "bars", "state": "AZ"}, "every": every}
    kept = await simple.client.put("/api/v1/schedules/bars", json=body)
    assert kept.json()["data"]["every"] == seconds
    wrong = await simple.client.put("/api/v1/schedules/bars", json={**body, "every": "soon"})
    assert "write 90s, 30m, 6h or 1d" in wrong.json()["meta"]["fields"][0]["message"]
