"""The simulated Apify on a real port, over a clock that the test moves: runs, datasets, costs, errors, lost answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from forager.core.errors import Rejected
from forager.sandbox import API_ACTOR, OLD_ACTOR, ApifyConfig, ApifySandbox, RunRule, When

TERMINAL = ("SUCCEEDED", "FAILED", "TIMED-OUT", "ABORTED")
BOSTON = {"search": "Boston, MA"}


class Client:
    def __init__(self, apify: ApifySandbox, session: aiohttp.ClientSession, clock: "Clock") -> None:
        self.apify, self.session, self.clock = apify, session, clock
        self.headers = {"Authorization": "Bearer sandbox-acme"}

    async def ask(self, verb: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any, dict[str, str]]:
        async with self.session.request(verb, path, json=body, params=query, headers=self.headers) as got:
            read = await got.read()
            return got.status, json.loads(read) if read and "json" in got.content_type else read, dict(got.headers)

    async def start(self, body: Any = BOSTON, actor: str = API_ACTOR, **query: Any) -> dict[str, Any]:
        status, said, _ = await self.ask("POST", f"/v2/acts/{actor}/runs", body, **query)
        assert status == 201, said
        return dict(said["data"])

    async def run(self, run_id: str, **query: Any) -> dict[str, Any]:
        status, said, _ = await self.ask("GET", f"/v2/actor-runs/{run_id}", **query)
        assert status == 200, said
        return dict(said["data"])

    async def items(self, dataset: str, **query: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
        status, said, headers = await self.ask("GET", f"/v2/datasets/{dataset}/items", **query)
        assert status == 200, said
        names = ("Offset", "Limit", "Count", "Total")
        return said, {name: int(headers[f"X-Apify-Pagination-{name}"]) for name in names}

    async def ended(self, body: Any = BOSTON, **query: Any) -> dict[str, Any]:
        started = await self.start(body, **query)
        self.clock.forward(1000)
        return await self.run(started["id"])


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 2, 6, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@asynccontextmanager
async def apify_with(**knobs: Any) -> AsyncIterator[Client]:
    clock = Clock()
    async with (
        ApifySandbox(ApifyConfig(**knobs), now=clock.now) as apify,
        aiohttp.ClientSession(apify.url) as session,
    ):
        yield Client(apify, session, clock)


@pytest.mark.parametrize("prefix", ["acts", "actors"])
@pytest.mark.parametrize("actor", [API_ACTOR, "c7YhPx1uRk3sTb9Qe"])
async def test_a_run_goes_from_ready_to_succeeded_under_both_prefixes(prefix: str, actor: str) -> None:
    async with apify_with() as client:
        status, said, headers = await client.ask("POST", f"/v2/{prefix}/{actor}/runs", BOSTON)
        run = said["data"]
        assert (status, run["status"], run["finishedAt"]) == (201, "READY", None)
        assert headers["Location"].endswith(run["id"])
        assert headers["X-RateLimit-Limit"] == "60"
        assert all(len(run[name]) == 17 for name in ("id", "actId", "userId", "defaultDatasetId"))
        seen = []
        for _ in range(40):
            client.clock.forward(2)
            seen.append((await client.run(run["id"]))["status"])
        assert sorted(set(seen), key=seen.index) == ["RUNNING", "SUCCEEDED"]
        ended = await client.run(run["id"])
        assert (ended["exitCode"], ended["isStatusMessageTerminal"]) == (0, True)
        assert ended["startedAt"] == "2026-11-02T06:00:00.000Z"


async def test_items_grow_while_it_runs_and_are_read_by_offset_and_total() -> None:
    async with apify_with(homes=200, run_seconds=100) as client:
        run = await client.start({**BOSTON, "maxItems": 60})
        totals = []
        for _ in range(20):
            client.clock.forward(10)
            totals.append((await client.items(run["defaultDatasetId"], limit=1))[1]["Total"])
        assert totals == sorted(totals)
        assert 0 < totals[4] < 60
        assert totals[-1] == 60
        pages = [(await client.items(run["defaultDatasetId"], offset=n, limit=25))[0] for n in (0, 25, 50, 75)]
        assert [len(page) for page in pages] == [25, 25, 10, 0]
        whole, header = await client.items(run["defaultDatasetId"])
        assert [row for page in pages for row in page] == whole
        assert (header["Offset"], header["Count"], header["Total"]) == (0, 60, 60)
        backwards, _ = await client.items(run["defaultDatasetId"], desc=1, limit=3)
        assert backwards == whole[:-4:-1]
        assert (await client.ask("GET", f"/v2/actor-runs/{run['id']}/dataset/items"))[1] == whole


async def test_a_clean_page_in_the_middle_is_shorter_than_its_limit() -> None:
    async with apify_with(homes=100, moving_share=0, empty_share=0.2) as client:
        dataset = (await client.ended())["defaultDatasetId"]
        pages = [await client.items(dataset, offset=n, limit=20, clean="true") for n in (0, 20, 40)]
        assert all(len(rows) < 20 for rows, _ in pages)
        assert all(header["Count"] == len(rows) for rows, header in pages)
        assert {header["Total"] for _, header in pages} == {(await client.items(dataset))[1]["Total"]}
        assert {} in (await client.items(dataset))[0]


async def test_rows_have_the_shape_of_the_two_actors() -> None:
    async with apify_with(homes=100, rent_share=0.5) as client:
        new, _ = await client.items((await client.ended())["defaultDatasetId"])
        assert {"streetAddress", "postalCode"} <= set(new[0]["location"])
        assert {len(row["id"]) for row in new} == {7}
        assert all(row["url"].startswith(client.apify.site_url) for row in new)
        assert any("rent" in row for row in new)
        assert any("rent" not in row and row["rentals"] for row in new)
        assert any(not row["rentals"] for row in new)
        assert any(row["beds"].startswith("Studio - ") for row in new)
        started = await client.start({**BOSTON, "proxy": {"useApifyProxy": True}}, OLD_ACTOR)
        client.clock.forward(500)
        old, _ = await client.items(started["defaultDatasetId"])
        assert {row["location"]["state"] for row in old} == {"Massachusetts"}
        assert all("streedAddress" in row["location"] and "rentals" not in row for row in old)
        assert any("–" in model["rentLabel"] for row in old for model in row["models"])


async def test_five_of_a_hundred_rows_are_bad() -> None:
    async with apify_with(homes=100, moving_share=0, twin_share=0, bad_every=20) as client:
        rows, _ = await client.items((await client.ended())["defaultDatasetId"])
        good = [row for row in rows if _usable(row)]
        assert (len(rows), len(good)) == (100, 95)


def _usable(row: dict[str, Any]) -> bool:
    return (
        bool(row.get("id") and row.get("propertyName") and row.get("location"))
        and abs(row["coordinates"]["latitude"]) <= 90
        and row.get("rent", {"min": 0, "max": 0})["max"] >= 0
    )


@pytest.mark.parametrize(
    ("rule", "status", "some"),
    [
        (RunRule("failed", share=0.5), "FAILED", True),
        (RunRule("aborted", share=0.5), "ABORTED", True),
        (RunRule("timed_out", share=0.5), "TIMED-OUT", True),
        (RunRule("succeeded", share=0.5), "SUCCEEDED", True),
        (RunRule("empty"), "SUCCEEDED", False),
    ],
)
async def test_every_terminal_status_keeps_the_items_pushed_so_far(rule: RunRule, status: str, some: bool) -> None:
    async with apify_with(runs=(rule,)) as client:
        bad, good = await client.ended(), await client.ended()
        assert (bad["status"], good["status"]) == (status, "SUCCEEDED")
        rows = [len((await client.items(run["defaultDatasetId"]))[0]) for run in (bad, good)]
        assert (0 < rows[0] < rows[1]) if some else rows[0] == 0


async def test_a_placeholder_run_succeeds_and_is_billed() -> None:
    async with apify_with(runs=(RunRule("placeholder"),)) as client:
        run = await client.ended()
        rows, _ = await client.items(run["defaultDatasetId"])
        assert run["status"] == "SUCCEEDED"
        assert {json.dumps(row) for row in rows} == {'{"demo": true}'}
        assert run["usageTotalUsd"] > 0


async def test_a_run_beyond_its_timeout_is_stopped_and_one_with_more_time_succeeds() -> None:
    async with apify_with(runs=(RunRule(seconds=700, times=2),)) as client:
        run = await client.start(timeout=600)
        client.clock.forward(601)
        assert (await client.run(run["id"]))["status"] == "TIMING-OUT"
        client.clock.forward(5)
        assert (await client.run(run["id"]))["status"] == "TIMED-OUT"
        again = await client.start(timeout=1200)
        client.clock.forward(701)
        assert (await client.run(again["id"]))["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("gracefully", "seconds"), [("false", 3), ("true", 31)])
async def test_an_abort_passes_through_aborting_and_a_second_one_does_nothing(gracefully: str, seconds: float) -> None:
    async with apify_with(runs=(RunRule("stuck"),)) as client:
        run = await client.start()
        client.clock.forward(20)
        status, said, _ = await client.ask("POST", f"/v2/actor-runs/{run['id']}/abort", gracefully=gracefully)
        assert (status, said["data"]["status"]) == (200, "ABORTING")
        client.clock.forward(seconds)
        assert (await client.run(run["id"]))["status"] == "ABORTED"
        before = (await client.run(run["id"]))["finishedAt"]
        assert (await client.ask("POST", f"/v2/actor-runs/{run['id']}/abort"))[0] == 200
        assert (await client.run(run["id"]))["finishedAt"] == before
        assert (await client.items(run["defaultDatasetId"]))[1]["Total"] > 0


async def test_the_cost_is_final_fifteen_seconds_after_the_end_and_hidden_without_a_token() -> None:
    async with apify_with(homes=100, runs=(RunRule(seconds=30),)) as client:
        run = await client.start({**BOSTON, "maxItems": 50})
        client.clock.forward(31)
        early = (await client.run(run["id"]))["usageTotalUsd"]
        client.clock.forward(15)
        final = (await client.run(run["id"]))["usageTotalUsd"]
        assert early == pytest.approx(0.6 * final)
        assert final == pytest.approx(0.01 * 3 + 0.0005 * 30)
        assert client.apify.spent("acme") == pytest.approx(final)
        client.headers = {}
        assert "usageTotalUsd" not in await client.run(run["id"])


async def test_max_total_charge_stops_the_run_and_max_items_caps_the_charge_alone() -> None:
    async with apify_with(homes=100, moving_share=0) as client:
        capped = await client.ended(maxTotalChargeUsd=0.02)
        assert (await client.items(capped["defaultDatasetId"]))[1]["Total"] == 20
        assert capped["usageTotalUsd"] <= 0.02
        cheap = await client.ended(maxItems=20)
        assert (await client.items(cheap["defaultDatasetId"]))[1]["Total"] >= 100
        assert cheap["usageTotalUsd"] == pytest.approx(0.01)
        assert cheap["options"]["maxItems"] == 20


async def test_wait_for_finish_answers_at_the_end_or_when_the_time_is_over() -> None:
    async with apify_with() as client:
        run = await client.start()
        waiting = asyncio.create_task(client.run(run["id"], waitForFinish=60))
        await client.apify.log.arrived(2)
        client.clock.forward(10)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        client.clock.forward(49)
        client.clock.forward(60)
        ended = await waiting
        assert ended["status"] == "SUCCEEDED"
        stuck = asyncio.create_task(client.start(BOSTON, waitForFinish=60))
        await client.apify.log.arrived(3)
        client.clock.forward(60)
        assert (await stuck)["status"] in ("RUNNING", "SUCCEEDED")


async def test_a_synchronous_run_gives_the_items_or_times_out_after_five_minutes() -> None:
    async with apify_with(runs=(RunRule("succeeded"), RunRule("stuck"))) as client:
        for status in (201, 408):
            path = f"/v2/acts/{API_ACTOR}/run-sync-get-dataset-items"
            asking = asyncio.create_task(client.ask("POST", path, BOSTON))
            await client.apify.log.arrived(1 if status == 201 else 2)
            client.clock.forward(301)
            got, said, _ = await asking
            assert got == status
            assert isinstance(said, list) if status == 201 else said["error"]["type"] == "run-timeout-exceeded"


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
        assert said["data"]["total"] >= 1, "aiohttp itself may have asked again when the connection was cut"
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
