"""The nested output, at once and as a stream."""

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest

from forager.api.serve import running
from forager.pipelines.reviews import api, reports
from forager.pipelines.reviews.publication import FIELDS
from tests.support.api import KEY
from tests.support.reviews import TOKEN, Reviews

NESTED, STREAM = "/api/v1/demo/nested", "/api/v1/demo/stream/nested"


async def test_the_nested_output_has_every_account_location_and_review__RV_10(service: Reviews) -> None:
    async with service.app.engine():
        answer = await service.client.post(NESTED, json={"access_token": TOKEN}, timeout=60)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    job = told["meta"]["job_id"]
    seen = await service.seen(job)
    accounts = told["data"]
    assert len(accounts) == seen["accounts"]
    assert any(each["locations"] == [] for each in accounts)
    locations = [location for account in accounts for location in account["locations"]]
    assert len(locations) == seen["locations"]
    reviews = [review for location in locations for review in location["reviews"]]
    assert len(reviews) == seen["reviews"]
    assert {"reviewId", "rating", "text", "createTime", "updateTime", "reviewer", "reply"} <= reviews[0].keys()
    assert (told["meta"]["status"], told["meta"]["failures"]) == ("completed", 0)


async def test_a_token_that_google_refuses_is_a_502_with_the_reason_and_no_empty_output__RV_10(simple: Reviews) -> None:
    async with simple.app.engine():
        answer = await simple.client.post(NESTED, json={"access_token": "unknown"}, timeout=60)
    assert answer.status_code == 502, answer.text
    about = answer.json()["meta"]
    assert (about["code"], about["reason"]) == ("token_refused", "token_refused")
    assert "new access token" in answer.json()["error"]
    streamed = events((await simple.client.get(STREAM, params={"job_id": about["job_id"]})).text)
    end = {"job_id": about["job_id"], "status": "failed", "accounts": 0, "locations": 0, "reviews": 0, "failures": 1}
    assert [(event, data) for event, _, data in streamed[1:]] == [("end", end)]


async def test_a_job_that_takes_too_long_is_a_504_with_its_id__RV_10(
    simple: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "NESTED_SECONDS", 0.05)
    answer = await simple.client.post(NESTED, json={"access_token": TOKEN})
    assert answer.status_code == 504
    assert (await simple.seen(answer.json()["meta"]["job_id"]))["status"] == "queued"


async def test_an_output_that_is_too_large_names_the_export__RV_10(
    simple: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_BYTES", 1_000)
    async with simple.app.engine():
        answer = await simple.client.post(NESTED, json={"access_token": TOKEN}, timeout=60)
    assert answer.status_code == 413
    assert "/api/v1/export/review?job=" in answer.json()["error"]


def events(text: str) -> list[tuple[str, int | None, Any]]:
    """(event, number, data) of each frame."""
    read = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in lines:
            number = int(lines["id"]) if "id" in lines else None
            read.append((lines["event"], number, orjson.loads(lines["data"])))
    return read


async def test_the_stream_sends_everything_once_in_the_order_of_changes_and_resumes__RV_10(service: Reviews) -> None:
    job = await service.fetch()
    await service.work()
    seen = await service.seen(job)
    whole = events((await service.client.get(STREAM, params={"job_id": job})).text)
    kinds = [event for event, _, _ in whole]
    assert (kinds[0], kinds[-1]) == ("job", "end")
    counts = {kind: kinds.count(kind) for kind in ("account", "location", "review")}
    assert counts == {"account": seen["accounts"], "location": seen["locations"], "review": seen["reviews"]}
    published = {"job_id", *FIELDS}
    assert all(published <= data.keys() for event, _, data in whole if event == "review"), "as in `reviews-raw`"
    assert whole[-1][2]["status"] == "completed"
    numbers = [number for event, number, _ in whole if event in counts and number is not None]
    assert len(numbers) == sum(counts.values())
    assert numbers == sorted(set(numbers))
    middle = len(whole) // 2
    rest = events(
        (
            await service.client.get(STREAM, params={"job_id": job}, headers={"Last-Event-ID": str(whole[middle][1])})
        ).text
    )
    assert [each[1:] for each in rest[1:]] == [each[1:] for each in whole[middle + 1 :]]


async def test_a_reader_that_reconnects_with_its_token_joins_the_open_job__RV_10(simple: Reviews) -> None:
    async with (
        running(simple.api, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}) as client,
    ):
        jobs = [await first_job(client) for _ in range(2)]
        assert jobs[0] == jobs[1]
        await simple.work()
        assert await first_job(client) != jobs[0]


async def first_job(client: httpx.AsyncClient) -> str:
    async with asyncio.timeout(60), client.stream("GET", STREAM, params={"access_token": TOKEN}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                return str(orjson.loads(line[5:])["job_id"])
    raise AssertionError("the stream ended before its first event")


async def read_stream(simple: Reviews, when_open: Callable[[], None]) -> str:
    """Read a job's stream to its end, and call `when_open` at its first part. No worker runs, so the job stays open."""
    job = await simple.fetch()
    received = ""
    async with (
        running(simple.api, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}) as client,
        asyncio.timeout(60),
        client.stream("GET", STREAM, params={"job_id": job}) as stream,
    ):
        async for part in stream.aiter_text():
            if not received:
                when_open()
            received += part
    return received


async def test_a_stream_closes_when_its_key_is_revoked__S13(simple: Reviews) -> None:
    received = await read_stream(simple, lambda: simple.api.state.service_key.replace("another-key-from-now-on"))
    assert [event for event, *_ in events(received)] == ["job"]


async def test_a_stream_of_a_removed_job_ends(simple: Reviews) -> None:
    def remove() -> None:
        with sqlite3.connect(simple.app.settings.home / "ledger.db") as ledger:
            ledger.execute("DELETE FROM jobs")

    (_, _, began), (name, _, ended) = events(await read_stream(simple, remove))
    assert (name, ended) == ("end", {"job_id": began["job_id"], "status": "removed"})


@pytest.mark.parametrize("query", [{}, {"access_token": "a", "job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"}])
async def test_a_stream_needs_a_token_or_a_job_and_not_both__RV_10(simple: Reviews, query: dict[str, str]) -> None:
    assert (await simple.client.get(STREAM, params=query)).status_code == 422


async def test_a_stream_refuses_what_cannot_be_a_token_as_the_other_routes_do__RV_1__RV_10(simple: Reviews) -> None:
    for token in ("", "two words", "x" * 4_097):
        assert (await simple.client.get(STREAM, params={"access_token": token})).status_code == 400


async def test_a_page_of_another_site_gets_no_stream(simple: Reviews) -> None:
    job = await simple.fetch()
    answer = await simple.client.get(STREAM, params={"job_id": job}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
