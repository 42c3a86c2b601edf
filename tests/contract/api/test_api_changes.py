"""The change log by API: pages, a wait for news, and the stream."""

import asyncio
import json
from typing import Any

import httpx

from forager.api.changes import ChangeFeed
from tests.contract.api.test_api_events import served
from tests.support.api import Front

PATH = "/api/v1/changes"
JOB = {"keyword": "bars", "zips": ["85001"], "dry_run": True}


async def grow(front: Front, jobs: int = 1) -> None:
    for _ in range(jobs):
        await front.app.submit("places", JOB)


async def page(front: Front, **asked: Any) -> tuple[list[int], dict[str, Any]]:
    answered = await front.client.get(PATH, params=asked)
    assert answered.status_code == 200, answered.text
    body = answered.json()
    return [each["id"] for each in body["data"]], body["meta"]


async def test_pages_join_without_a_gap_and_name_where_the_next_begins(simple: Front) -> None:
    assert (await page(simple))[0] == []
    await grow(simple, 5)
    last = (await simple.app.sinks.position("any")).last
    first, meta = await page(simple, limit=3)
    assert (first, meta["next_after"], meta["last"]) == ([1, 2, 3], 3, last)
    rest, meta = await page(simple, after=meta["next_after"], limit=1_000)
    assert (rest, meta["next_after"]) == (list(range(4, last + 1)), last)
    assert (await page(simple, after=last))[1]["next_after"] == last
    assert (await page(simple, after=last + 7))[1]["next_after"] == last + 7


async def test_changes_of_other_kinds_are_passed_over(simple: Front) -> None:
    await grow(simple, 2)
    found, meta = await page(simple, kinds="place,product")
    assert (found, meta["next_after"]) == ([], meta["last"])
    (change, *_) = (await simple.client.get(PATH, params={"kinds": "job, place"})).json()["data"]
    assert (change["kind"], change["op"], change["pipeline"], change["scope"]) == ("job", "created", "places", "world")
    assert change["job"] == change["key"]
    assert change["body"]["state"]
    unknown = await simple.client.get(PATH, params={"kinds": "pets"})
    assert unknown.status_code == 422
    assert "choose from" in unknown.text


async def test_a_request_that_waits_is_answered_by_the_next_change_and_at_the_latest_after_its_time(
    simple: Front,
) -> None:
    assert (await page(simple, wait=0.05))[0] == []
    waiting = asyncio.create_task(page(simple, wait=60))
    other = asyncio.create_task(page(simple, wait=60, kinds="place"))
    await asyncio.sleep(0.05)
    await grow(simple)
    async with asyncio.timeout(45):
        assert (await waiting)[0] == [1]
    assert not other.done(), "a change of another kind is no news"
    other.cancel()


async def test_the_stream_sends_stored_changes_then_new_ones_and_resumes(simple: Front) -> None:
    await grow(simple, 2)
    last = (await simple.app.sinks.position("any")).last

    async def read(client: httpx.AsyncClient, count: int, **headers: str) -> list[int]:
        found: list[int] = []
        async with asyncio.timeout(60), client.stream("GET", f"{PATH}/events", headers=headers) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line[6:])["id"])
                    if len(found) == last:
                        await grow(simple)
                    if len(found) == count:
                        return found
        raise AssertionError("the stream ended")

    async with served(simple) as client:
        assert await read(client, last + 1) == list(range(1, last + 2))
        assert await read(client, 1, **{"Last-Event-ID": str(last)}) == [last + 1]
    foreign = await simple.client.get(f"{PATH}/events", headers={"Origin": "https://elsewhere.example"})
    assert foreign.status_code == 403


async def test_readers_that_come_together_or_cannot_read_leave_no_watcher_behind(simple: Front) -> None:
    feed = ChangeFeed(simple.app.ledger, simple.app.database)

    async def read() -> None:
        async with feed.reading():
            await asyncio.sleep(0)

    await asyncio.gather(*[read() for _ in range(5)])
    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await asyncio.sleep(0)
    assert feed.readers == 0
    looks = [task for task in asyncio.all_tasks() if "ChangeFeed._look" in repr(task.get_coro())]
    assert looks == []
