"""Faults, refusals and limits of the simulated Apify: lost answers, bad input, errors, old runs, settings."""

import asyncio
from typing import Any

import aiohttp
import pytest

from forager.core.errors import Rejected
from forager.sandbox import API_ACTOR, ApifyConfig, RunRule, When
from tests.support.sandbox_apify import BOSTON, apify_with


@pytest.mark.parametrize("fault", ["lost", "timeout", "drop"])
async def test_a_start_whose_answer_is_lost_is_found_among_the_runs_by_time_and_input(fault: str) -> None:
    async with apify_with(script=(When(fault, operation="runs.start", subject="Boston, MA"),)) as client:
        await client.start({"search": "Austin, TX"})
        client.clock.forward(60)
        since = "2026-11-02T06:00:30Z"
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            async with asyncio.timeout(0.3):
                await client.start()
        _, said, _ = await client.ask("GET", f"/v2/acts/{API_ACTOR}/runs", startedAfter=since, desc="true")
        assert said["data"]["total"] >= 1, "aiohttp itself may have sent it again when the connection was cut"
        found = said["data"]["items"][0]
        store = found["defaultKeyValueStoreId"]
        assert (await client.ask("GET", f"/v2/key-value-stores/{store}/records/INPUT"))[1] == BOSTON
        assert (await client.ask("GET", f"/v2/actor-runs/{found['id']}/key-value-store/records/INPUT"))[1] == BOSTON
        first = client.apify.log.calls("runs.start", "Boston, MA")[0]
        assert (first.fault, first.delivered) == (fault, False)


async def test_a_start_that_is_reset_makes_no_run() -> None:
    async with apify_with(script=(When("reset", operation="runs.start", times=None),)) as client:
        with pytest.raises(aiohttp.ClientError):
            await client.start()
        assert client.apify.runs == []


async def test_runs_are_listed_by_status_and_time_in_pages() -> None:
    async with apify_with(runs=(RunRule("failed", times=2),)) as client:
        for _ in range(5):
            await client.ended()
        path = f"/v2/actors/{API_ACTOR}/runs"
        _, said, _ = await client.ask("GET", path, limit=2, offset=1)
        assert {name: said["data"][name] for name in ("total", "offset", "limit", "count", "desc")} == {
            "total": 5,
            "offset": 1,
            "limit": 2,
            "count": 2,
            "desc": False,
        }
        times = [row["startedAt"] for row in said["data"]["items"]]
        assert times == sorted(times)
        assert (await client.ask("GET", path, status="FAILED"))[1]["data"]["total"] == 2
        assert (await client.ask("GET", path, startedBefore=times[0]))[1]["data"]["total"] == 2
        assert (await client.ask("GET", path, startedAfter="yesterday"))[0] == 400
        client.headers = {"Authorization": "Bearer sandbox-other"}
        assert (await client.ask("GET", path))[1]["data"]["total"] == 0, "another user's runs are not listed"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Field input.search is required"),
        ({"search": 7}, "Field input.search must be string"),
        ({"search": "Boston, MA", "colour": 1}, "Property input.colour is not allowed."),
        ({"startUrls": [{"url": "x"}]}, "Field input.startUrls must be array of strings"),
        ({"search": "Boston, MA", "maxItems": True}, "Field input.maxItems must be integer"),
    ],
)
async def test_bad_input_is_refused_at_the_start_and_makes_no_run(body: Any, message: str) -> None:
    async with apify_with() as client:
        status, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", body)
        assert (status, said["error"]["type"]) == (400, "invalid-input")
        assert said["error"]["message"] == f"Input is not valid: {message}"
        assert client.apify.runs == []


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ({"memory": 1000}, "invalid-value"),
        ({"maxTotalChargeUsd": 0.001}, "max-total-charge-usd-below-minimum"),
        ({"maxItems": "many"}, "invalid-value"),
        ({"timeout": "long"}, "invalid-value"),
    ],
)
async def test_bad_options_are_refused(query: dict[str, Any], kind: str) -> None:
    async with apify_with() as client:
        status, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", BOSTON, **query)
        assert (status, said["error"]["type"]) == (400, kind)


async def test_memory_credit_and_concurrent_runs_are_limited() -> None:
    async with apify_with(memory_limit_mb=2048) as client:
        await client.start()
        await client.start()
        status, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", BOSTON)
        assert (status, said["error"]["type"]) == (402, "actor-memory-limit-exceeded")
        client.clock.forward(500)
        await client.start()
    async with apify_with(most_runs=1, too_many_runs_status=403) as client:
        await client.start()
        status, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", BOSTON)
        assert (status, said["error"]["type"]) == (403, "concurrent-runs-limit-exceeded")
    async with apify_with(credit_usd=0.015) as client:
        await client.ended()
        status, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", BOSTON)
        assert (status, said["error"]["type"]) == (402, "not-enough-usage-to-run-paid-actor")


async def test_more_than_sixty_requests_a_second_to_one_resource_are_refused_without_retry_after() -> None:
    async with apify_with(rate_per_second=5) as client:
        run = await client.start()
        answers = await asyncio.gather(*(client.ask("GET", f"/v2/actor-runs/{run['id']}") for _ in range(8)))
        assert sorted(status for status, _, _ in answers) == [200] * 5 + [429] * 3
        refused = next(answer for answer in answers if answer[0] == 429)
        assert refused[1]["error"]["type"] == "rate-limit-exceeded"
        assert "Retry-After" not in refused[2]
        assert (await client.ask("GET", f"/v2/datasets/{run['defaultDatasetId']}"))[0] == 200


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("http402", 402, "not-enough-usage-to-run-paid-actor"),
        ("http403", 403, "actor-is-not-rented"),
        ("http429", 429, "rate-limit-exceeded"),
        ("http500", 500, "internal-server-error"),
        ("http502", 502, None),
    ],
)
async def test_scripted_errors_have_apify_s_envelope(fault: str, status: int, kind: str | None) -> None:
    async with apify_with(script=(When(fault, operation="runs.start"),)) as client:
        got, said, _ = await client.ask("POST", f"/v2/acts/{API_ACTOR}/runs", BOSTON)
        assert got == status
        assert said["error"]["type"] == kind if kind else b"Bad Gateway" in said
        assert client.apify.runs == []


async def test_the_token_may_be_in_the_query_and_is_not_logged_and_the_verb_may_be_overridden() -> None:
    async with apify_with() as client:
        client.headers = {}
        path = f"/v2/acts/{API_ACTOR}/runs"
        status, said, _ = await client.ask("GET", path, BOSTON, method="POST", token="sandbox-acme", memory=512)
        assert (status, said["data"]["options"]["memoryMbytes"]) == (201, 512)
        assert (await client.ask("POST", path, BOSTON))[1]["error"]["type"] == "token-not-provided"
        assert (await client.ask("POST", path, BOSTON, token="apify_api_REAL"))[1]["error"]["type"] == (
            "user-or-token-not-found"
        )
        log = "".join(call.json().decode() for call in client.apify.log)
        assert "memory=512" in log
        assert "apify_api_REAL" not in log


async def test_a_deleted_run_and_an_old_one_vanish_with_their_datasets() -> None:
    async with apify_with(keep_runs=2) as client:
        first = await client.start()
        assert (await client.ask("DELETE", f"/v2/actor-runs/{first['id']}"))[0] == 400
        client.clock.forward(500)
        assert (await client.ask("DELETE", f"/v2/actor-runs/{first['id']}"))[0] == 204
        kept = [await client.ended() for _ in range(3)]
        for run, status in ((first, 404), (kept[0], 404), (kept[1], 200)):
            assert (await client.ask("GET", f"/v2/actor-runs/{run['id']}"))[0] == status
            assert (await client.ask("GET", f"/v2/datasets/{run['defaultDatasetId']}/items"))[0] == status


async def test_a_dataset_s_count_lags_behind_its_items() -> None:
    async with apify_with(homes=200, runs=(RunRule(seconds=100),)) as client:
        run = await client.start()
        client.clock.forward(50)
        _, said, _ = await client.ask("GET", f"/v2/datasets/{run['defaultDatasetId']}")
        total = (await client.items(run["defaultDatasetId"]))[1]["Total"]
        assert 0 < said["data"]["itemCount"] < total
        assert said["data"]["actRunId"] == run["id"]


@pytest.mark.parametrize(
    "changes",
    [
        {"runs": [{"outcome": "melted"}]},
        {"runs": [{"colour": 1}]},
        {"gone": ["500"]},
        {"homes": 100_000},
        {"twin_share": 2},
        {"portals": ["http://a"]},
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        ApifyConfig().changed(changes)


async def test_run_rules_come_through_the_admin_door() -> None:
    async with apify_with() as client:
        assert (await client.ask("POST", "/_sandbox/runs", [{"outcome": "failed"}]))[1] == {"added": 1}
        assert (await client.ended())["status"] == "FAILED"
        assert (await client.ask("GET", "/_sandbox/stats"))[1]["runs"] == 1
