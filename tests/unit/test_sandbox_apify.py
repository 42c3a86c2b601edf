"""The simulated Apify on a real port, over a clock that the test moves: runs, datasets, ends, costs, waiting."""

import asyncio
import json
from typing import Any

import pytest

from forager.sandbox import API_ACTOR, OLD_ACTOR, RunRule
from tests.support.sandbox_apify import BOSTON, apify_with


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
async def test_every_terminal_status_keeps_the_items_pushed_before(rule: RunRule, status: str, some: bool) -> None:
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
