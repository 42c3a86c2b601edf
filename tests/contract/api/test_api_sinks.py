"""Sinks through the API: how each is doing, pause, resume, replay, and what one has refused."""

import re
from typing import Any

from forager.core.ids import sink_lane
from tests.support.api import Front

PATH = "/api/v1/sinks"


async def post(front: Front, path: str, body: Any = None) -> Any:
    answered = await front.client.post(f"{PATH}/{path}", json=body)
    assert answered.status_code == 200, answered.text
    return answered.json()["data"]


async def test_a_sink_is_listed_and_shown_before_it_has_done_anything(simple: Front) -> None:
    listed = next(each for each in await simple.data(PATH) if each["name"] == "webhook")
    assert listed == await simple.data(f"{PATH}/webhook")
    assert (listed["name"], listed["configured"], listed["state"]) == ("webhook", True, "idle")
    assert (listed["cursor"], listed["behind"], listed["lag_seconds"], listed["error"]) == (0, 0, 0.0, None)


async def test_a_sink_is_paused_and_resumed_by_its_lane(simple: Front) -> None:
    assert (await post(simple, "webhook/pause"))["state"] == "paused"
    lane = await simple.app.reports.lane(sink_lane("webhook"))
    assert lane is not None
    assert lane.paused
    assert (await post(simple, "webhook/resume"))["state"] == "idle"
    assert await simple.data("/api/v1/lanes") == [], "the lane of a sink is not a lane of work"


async def test_a_failing_sink_is_reported_as_failing(simple: Front) -> None:
    await simple.app.sinks.failed("webhook", "It does not answer.", failures=1, retry_in=4.0)
    first = await simple.data(f"{PATH}/webhook")
    await simple.app.database.write("UPDATE cursors SET failing_since = failing_since - 60000")
    await simple.app.sinks.failed("webhook", "It does not answer.", failures=3, retry_in=4.0)
    shown = await simple.data(f"{PATH}/webhook")
    assert (shown["state"], shown["failures"], shown["error"]) == ("failing", 3, "It does not answer.")
    assert shown["retry_at"] > shown["error_at"]
    assert shown["failing_since"] < first["failing_since"] <= first["error_at"], "the time of the first failure is kept"
    metrics = (await simple.client.get("/metrics")).text
    seconds = re.search(r'^forager_sink_failing_seconds\{sink="webhook"\} (\S+)', metrics, re.MULTILINE)
    assert seconds is not None
    assert 60 <= float(seconds[1]) < 600
    await simple.app.sinks.advance("webhook", 0)
    assert (await simple.data(f"{PATH}/webhook"))["failing_since"] is None


async def test_a_replay_moves_the_place_in_the_log(simple: Front) -> None:
    await simple.app.submit("places", {"keyword": "bars", "zips": ["85001"]})
    await simple.app.sinks.advance("webhook", 1)
    await simple.app.sinks.set_aside("webhook", 1, tries=5, error="no")
    moved = await post(simple, "webhook/replay", {"after": 0})
    assert (moved["cursor"], moved["behind"], moved["set_aside"]) == (0, 1, 0)
    forward = await post(simple, "webhook/replay", {"after": 1})
    assert (forward["cursor"], forward["behind"]) == (1, 0)
    beyond = await simple.client.post(f"{PATH}/webhook/replay", json={"after": 2})
    assert beyond.status_code == 422
    assert "the newest change is 1" in beyond.text


async def test_all_mistakes_of_a_new_sink_are_reported_in_one_round(simple: Front) -> None:
    body = {"name": "a b", "type": "webhok", "kinds": ["plce"], "pipelines": ["plces"], "where": "rating > 4"}
    refused = await simple.client.post(PATH, json=body)
    assert refused.status_code == 422
    assert [each["field"] for each in refused.json()["meta"]["fields"]] == ["name", "type", "kinds", "pipelines"]
    known = {**body, "name": "ab", "type": "webhook", "kinds": ["place"], "pipelines": None, "where": "ratin > 4"}
    refused = await simple.client.post(PATH, json=known)
    assert [each["field"] for each in refused.json()["meta"]["fields"]] == ["options.url", "where"]


async def test_what_a_sink_refused_is_listed_retried_and_discarded(simple: Front) -> None:
    for number in range(3):
        await simple.app.submit("places", {"keyword": f"bars {number}", "zips": ["85001"]})
        await simple.app.sinks.set_aside("webhook", number + 1, tries=5, error=f"no {number}")
    refused = await simple.data(f"{PATH}/webhook/refused")
    assert [(r["change"], r["kind"], r["op"], r["tries"], r["error"]) for r in refused] == [
        (1, "job", "created", 5, "no 0"),
        (2, "job", "created", 5, "no 1"),
        (3, "job", "created", 5, "no 2"),
    ]
    assert refused[0]["job"] == refused[0]["key"]
    assert (await simple.data(f"{PATH}/webhook"))["set_aside"] == 3
    assert await post(simple, "webhook/refused/retry?change=2") == {"changes": 1}
    assert [r["retry"] for r in await simple.data(f"{PATH}/webhook/refused")] == [False, True, False]
    assert await post(simple, "webhook/refused/discard?change=2") == {"changes": 1}
    assert (await simple.client.post(f"{PATH}/webhook/refused/retry?change=2")).status_code == 404
    assert await post(simple, "webhook/refused/discard") == {"changes": 2}
    assert await simple.data(f"{PATH}/webhook/refused") == []


async def test_a_sink_that_is_no_longer_configured_can_be_removed(simple: Front) -> None:
    await simple.app.sinks.advance("old", 0)
    configured = {s["name"]: s["configured"] for s in await simple.data(PATH)}
    assert configured == {"old": False, "search": True, "webhook": True}
    assert (await simple.client.delete(f"{PATH}/webhook")).status_code == 409
    assert (await simple.client.delete(f"{PATH}/old")).json()["data"] == {"removed": "old"}
    assert [s["name"] for s in await simple.data(PATH)] == ["search", "webhook"]


async def test_a_sink_that_there_is_not_is_a_404(simple: Front) -> None:
    for method, path in (
        ("GET", "nothing"),
        ("GET", "nothing/refused"),
        ("POST", "nothing/pause"),
        ("POST", "nothing/resume"),
        ("POST", "nothing/refused/retry"),
        ("POST", "nothing/refused/discard"),
        ("DELETE", "nothing"),
    ):
        answered = await simple.client.request(method, f"{PATH}/{path}")
        assert answered.status_code == 404, (method, path, answered.text)
        assert "forager sinks list" in answered.text


async def test_metrics_contain_lag_and_rate_of_each_sink(simple: Front) -> None:
    await simple.app.submit("places", {"keyword": "bars", "zips": ["85001"]})
    await simple.app.sinks.advance("search", 0, delivered=7, rate=2.0)
    told = (await simple.client.get("/metrics")).text
    lines = dict(line.rsplit(" ", 1) for line in told.splitlines() if line.startswith("forager_sink_"))
    assert lines['forager_sink_behind{sink="search"}'] == "1.0"
    assert lines['forager_sink_delivered_total{sink="search"}'] == "7.0"
    assert 1.5 < float(lines['forager_sink_rate{sink="search"}']) <= 2.0
    assert float(lines['forager_sink_lag_seconds{sink="search"}']) >= 0
    assert lines['forager_sink_failing{sink="search"}'] == lines['forager_sink_paused{sink="search"}'] == "0.0"
    assert lines['forager_sink_set_aside{sink="search"}'] == "0.0"


HOOK = {"name": "places", "type": "webhook", "kinds": ["place"], "options": {"url": "https://receiver.example/a?t=1"}}


async def test_a_sink_is_added_shown_and_removed(simple: Front) -> None:
    made = await simple.client.post(PATH, json={**HOOK, "pipelines": ["places"]})
    assert made.status_code == 201, made.text
    shown = made.json()["data"]
    assert shown.pop("warnings") == [
        "FORAGER_WEBHOOK_SECRET is not set: messages are kept, and none is sent until it is"
    ]
    assert shown == await simple.data(f"{PATH}/places")
    assert (shown["type"], shown["origin"], shown["configured"]) == ("webhook", "row", True)
    assert (shown["kinds"], shown["pipelines"], shown["options"]) == (["place"], ["places"], HOOK["options"])
    assert (await simple.client.post(PATH, json=HOOK)).status_code == 409
    assert (await simple.client.delete(f"{PATH}/places")).json()["data"] == {"removed": "places"}
    assert (await simple.client.get(f"{PATH}/places")).status_code == 404


async def test_a_row_that_cannot_be_is_refused_with_its_field__S2(simple: Front) -> None:
    def hook(url: str) -> dict[str, Any]:
        return {**HOOK, "options": {"url": url}}

    for wrong, field in (
        ({**HOOK, "name": "../etc"}, "name"),
        ({**HOOK, "name": "x" * 101}, "name"),
        ({**HOOK, "type": "fax"}, "type"),
        ({**HOOK, "type": "search"}, "type"),
        ({**HOOK, "kinds": ["pets"]}, "kinds"),
        ({**HOOK, "kinds": []}, "kinds"),
        ({**HOOK, "pipelines": ["pets"]}, "pipelines"),
        ({**HOOK, "options": {}}, "options.url"),
        ({**HOOK, "options": {"url": "https://a.example", "token": "x"}}, "options.token"),
        ({**HOOK, "after": 1_000_000}, "after"),
        (hook("http://127.0.0.1/a"), "options.url"),
        (hook("file:///etc/passwd"), "options.url"),
        (hook("https://me:secret@a.example/"), "options.url"),
    ):
        answered = await simple.client.post(PATH, json=wrong)
        assert answered.status_code == 422, (wrong, answered.text)
        assert field in answered.text, (wrong, answered.text)
    kafka = await simple.client.post(PATH, json={"name": "k", "type": "kafka"})
    assert kafka.status_code == 422
    assert "FORAGER_KAFKA_BROKERS" in kafka.text
    assert [each["name"] for each in await simple.data(PATH)] == ["search", "webhook"]


async def test_the_types_of_sinks_and_their_options_are_listed(simple: Front) -> None:
    types = {each["name"]: each for each in await simple.data("/api/v1/sink-types")}
    assert {"webhook", "kafka", "files", "search"} <= set(types)
    assert list(types["webhook"]["options"]["properties"]) == ["url"]
    assert not types["search"]["addable"]


async def test_a_sink_that_is_full_for_a_day_degrades_health(simple: Front) -> None:
    await simple.app.submit("places", {"keyword": "bars", "zips": ["85001"]})
    sinks, day = simple.app.sinks, 86_400.0

    async def is_stalled(since: float) -> bool:
        await sinks.failed("webhook", "1,000 webhooks wait.", failures=0, retry_in=300.0, seconds_ago=since)
        return bool((await simple.data(f"{PATH}/webhook"))["stalled"])

    await sinks.advance("webhook", 0)
    assert not await is_stalled(2 * day), "what waits is new"
    await simple.app.database.write("UPDATE changes SET at = at - 200000000")
    assert not await is_stalled(day - 3_600), "a new sink with an old log before it"
    assert await is_stalled(day + 3_600)
    red = await simple.client.get("/health")
    assert (red.status_code, red.json()["data"]["stalled_sinks"]) == (503, 1)
    await sinks.advance("webhook", 0)
    assert not (await simple.data(f"{PATH}/webhook"))["stalled"], "it goes on"


async def test_a_sink_that_fails_for_five_minutes_degrades_health(simple: Front) -> None:
    await simple.app.submit("places", {"keyword": "bars", "zips": ["85001"]})
    await simple.app.sinks.advance("webhook", 0)
    await simple.app.sinks.failed("webhook", "It does not answer.", failures=9, retry_in=4.0)
    assert not (await simple.data(f"{PATH}/webhook"))["stalled"]
    long_ago = "UPDATE {} SET {} = {} - 400000"
    await simple.app.database.write(long_ago.format("changes", "at", "at"))
    assert not (await simple.data(f"{PATH}/webhook"))["stalled"], "it has moved a moment ago"
    await simple.app.database.write(long_ago.format("cursors", "moved_at", "moved_at"))
    assert (await simple.data(f"{PATH}/webhook"))["stalled"]
    red = await simple.client.get("/health")
    assert red.status_code == 503
    assert red.json()["data"]["stalled_sinks"] == 1
    await post(simple, "webhook/pause")
    assert not (await simple.data(f"{PATH}/webhook"))["stalled"], "an operator has paused it"
