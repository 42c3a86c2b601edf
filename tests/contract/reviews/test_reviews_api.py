"""From a token to reviews: what a caller sends, what is stored, what is shown."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from forager.core.database import Row
from forager.ledger.reports import LedgerReports
from forager.pipelines.reviews import reports
from forager.pipelines.reviews.reports import figures
from forager.sandbox import Tenant
from tests.support.origin import Origin
from tests.support.reviews import API, TOKEN, Reviews, open_reviews


def names(service: Reviews) -> list[str]:
    """Every review that a full read of the simulated world shows."""
    config = service.google.config
    world = service.google.world("acme")
    return sorted(f"{each.account}_{each.location}_{each.review}" for each in world.expected(50, config.missing_share))


async def test_a_token_becomes_accounts_locations_and_reviews_each_once__RV_3(service: Reviews) -> None:
    job = await service.fetch()
    await service.work()
    seen = await service.seen(job)
    stored = [each["review_key"] for each in await service.records("review", job)]
    assert sorted(stored) == names(service)
    assert (seen["status"], seen["failures"], seen["reviews"]) == ("completed", 0, len(stored))
    assert seen["accounts"] == len(await service.records("account", job)) == 4
    assert seen["locations"] == len(await service.records("location", job))
    assert seen["pages"] == seen["pages_done"]


async def test_a_job_is_estimated_by_the_newest_complete_one_and_nothing_is_sent(service: Reviews) -> None:
    async def planned() -> dict[str, Any]:
        answer = await service.client.post("/api/v1/jobs/plan", json={"pipeline": "reviews", "params": {}})
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])

    before = await planned()
    job = await service.fetch()
    await service.work()
    seen, sent = await service.seen(job), service.google.log.total
    after = await planned()

    assert (before["based_on"], before["requests"]) == (None, None)
    assert after["based_on"] == job
    assert after["requests"] == seen["pages"] > 2
    assert [after[name] for name in ("accounts", "locations", "reviews")] == [
        seen[name] for name in ("accounts", "locations", "reviews")
    ]
    assert after["requests_per_second"] == 1_000.0
    assert service.google.log.total == sent


async def test_rows_that_cannot_be_identified_are_kept_with_their_reason_and_counted__RV_8(tmp_path: Path) -> None:
    page = orjson.dumps({"reviews": [{"starRating": "ONE"}, {"reviewId": "good"}, "odd"]})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    async with (
        Origin(lambda _: head + page) as origin,
        open_reviews(tmp_path, google_reviews_url=origin.url(""), allow=[origin.endpoint], locations=1) as service,
    ):
        job = await service.fetch()
        await service.work()
        seen = await service.seen(job)
        assert (seen["status"], seen["reviews"], seen["rejected"], seen["failures"]) == ("completed", 1, 2, 0)
        rejected = (await service.client.get(f"/api/v1/jobs/{job}/rejected")).json()["data"]
        assert [(each["kind"], each["payload"]) for each in rejected] == [
            ("review", {"starRating": "ONE"}),
            ("review", "odd"),
        ]


async def test_the_answer_to_a_submission_is_the_seeds_own__RV_1(service: Reviews) -> None:
    made = await service.client.post(API, json={"access_token": TOKEN})
    data = made.json()["data"]
    assert made.status_code == 202
    assert (data["status"], data["message"]) == ("queued", "Job enqueued for processing")
    assert (await service.seen(data["job_id"]))["status"] == "queued"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"nonsense",
        b'{"access_token": 7}',
        b'{"access_token": null}',
        b'{"access_token": ""}',
        b'{"access_token": "   "}',
        b'{"access_token": "two words"}',
        b'{"access_token": "line\\nbreak"}',
        b'{"access_token": "good", "more": 1}',
        orjson.dumps({"access_token": "x" * 4_097}),
    ],
)
async def test_a_body_without_a_usable_token_is_a_400_that_does_not_repeat_it__RV_1(
    simple: Reviews, body: bytes
) -> None:
    answer = await simple.client.post(API, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["meta"]["code"] == "invalid"
    assert not any(text in answer.text for text in ("two words", "xxxx"))


async def test_a_token_of_4096_characters_is_taken__RV_1(simple: Reviews) -> None:
    assert (await simple.client.post(API, json={"access_token": "x" * 4_096})).status_code == 202


async def _figures(service: Reviews) -> dict[str, int]:
    lines = (await service.client.get("/metrics")).text.splitlines()
    name = "forager_review_jobs_"
    return {k.removeprefix(name): int(float(v)) for k, _, v in (x.partition(" ") for x in lines) if k.startswith(name)}


async def test_one_job_more_than_may_wait_is_refused_with_429__RV_1(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, max_waiting_review_jobs=3) as service:
        for _ in range(3):
            await service.fetch()
        refused = await service.client.post(API, json={"access_token": TOKEN})
        assert refused.status_code == 429, refused.text
        assert refused.headers["Retry-After"]
        assert await _figures(service) == {"enqueued": 3, "dequeued": 0, "waiting": 3, "rejected": 1}
        await service.work()
        later = {each.name: each.value for each in await figures(service.app)}  # `/metrics` is a second old at most
        assert later["forager_review_jobs_dequeued"] == 3
        await service.fetch()


async def test_the_figures_of_the_queue_do_not_read_all_jobs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "UNSURE", 2)
    async with open_reviews(tmp_path) as service:
        asked: list[int] = []
        fetch = service.app.database.fetch

        async def noted(sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
            asked.extend([values["after"]] if values and "after" in values and sql == reports._ACCEPTED else [])
            return await fetch(sql, values)

        monkeypatch.setattr(service.app.database, "fetch", noted)
        for number in range(1, 7):
            await service.fetch()
            found = {each.name: each.value for each in await figures(service.app)}
            assert found["forager_review_jobs_enqueued"] == number
        assert asked == [0, 0, 0, 1, 2, 3], "from the last count on, less the newest jobs"
        await service.app.database.write(
            "INSERT INTO past_jobs SELECT id, public_id, pipeline, 1, false FROM jobs WHERE id = 6"
        )
        await service.app.database.write("DELETE FROM jobs WHERE id = 6")
        found = {each.name: each.value for each in await figures(service.app)}
        assert found["forager_review_jobs_enqueued"] == 6, "a job that was removed counts"


async def test_an_expired_token_fails_its_pages_ends_the_job_and_a_new_one_finishes_it__RV_2(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, tenants={"acme": Tenant(locations=12, expires_after=6)}) as service:
        job = await service.fetch()
        await service.work()
        seen = await service.seen(job)
        assert seen["status"] == "partially_completed"
        assert seen["failures"] > 0
        letters = (await service.client.get("/api/v1/dead", params={"job": job})).json()["data"]
        assert len(letters) == seen["failures"]
        assert all("401" in each["error"] and TOKEN not in str(each) for each in letters)
        while (seen := await service.seen(job))["failures"]:
            again = await service.client.post(f"{API}/{job}/retry", json={"access_token": f"{TOKEN}.{seen['pages']}"})
            assert again.json()["data"]["requeued"] == seen["failures"]
            await service.work()
        assert seen["status"] == "completed"
        assert sorted(each["review_key"] for each in await service.records("review", job)) == names(service)


async def test_a_retry_without_a_token_is_refused__RV_2(simple: Reviews) -> None:
    """Retries by the job, by the dead letter, and in bulk, where it is left out: it could only fail again."""
    job = await simple.fetch("unknown")
    assert (await simple.client.post(f"{API}/{job}/retry", json={})).status_code == 400
    await simple.work()
    (letter,) = (await simple.client.get("/api/v1/dead", params={"job": job})).json()["data"]
    for path in (f"/api/v1/jobs/{job}/retry", f"/api/v1/dead/{letter['id']}/retry"):
        refused = await simple.client.post(path)
        assert (refused.status_code, refused.json()["meta"]["fields"][0]["field"]) == (422, "access_token"), path
        assert f"{API}/{job}/retry" in refused.json()["error"]
    many = await simple.client.post("/api/v1/dead/retry", json={"pipeline": "reviews"})
    (over,) = many.json()["data"]["passed_over"]
    assert (over["reason"], over["letters"], over["jobs"]) == ("secret_required", 1, [job])
    assert (many.json()["data"]["requeued"], many.json()["data"]["letters"]) == (0, 0)
    assert (await simple.seen(job))["status"] == "failed"


async def test_a_bulk_retry_looks_up_each_job_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    for name in ("dead", "job"):
        monkeypatch.setattr(LedgerReports, name, _counted(asked, name, getattr(LedgerReports, name)))
    async with open_reviews(tmp_path, tenants={"acme": Tenant(locations=12, expires_after=6)}) as service:
        failures = (await service.seen(await _worked(service)))["failures"]
        assert failures > 2
        asked.clear()
        many = await service.client.post("/api/v1/dead/retry", json={"pipeline": "reviews"})
        assert sum(each["letters"] for each in many.json()["data"]["passed_over"]) == failures
        assert asked == {"dead": 1, "job": 1}


async def _worked(service: Reviews) -> str:
    job = await service.fetch()
    await service.work()
    return job


def _counted(asked: Counter[str], name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    async def count(*args: Any, **options: Any) -> Any:
        asked[name] += 1
        return await method(*args, **options)

    return count


async def test_a_job_without_a_token_is_not_created_and_not_scheduled__RV_1(simple: Reviews) -> None:
    made = await simple.client.post("/api/v1/jobs", json={"pipeline": "reviews", "params": {}})
    assert (made.status_code, made.json()["meta"]["fields"][0]["field"]) == (422, "access_token")
    timed = {"pipeline": "reviews", "params": {}, "every": "1d"}
    assert (await simple.client.put("/api/v1/schedules/nightly", json=timed)).status_code == 422


async def test_the_token_is_nowhere_in_the_store_or_the_api_and_its_seal_is_gone_at_the_end__RV_2(
    service: Reviews,
) -> None:
    token = "sandbox-acme.canary"
    job = await service.fetch(token)
    held = "SELECT count(*) AS n FROM job_secrets"
    assert (await service.app.database.fetch(held))[0]["n"] == 1
    await service.work()
    assert (await service.app.database.fetch(held))[0]["n"] == 0
    for path in (
        f"/api/v1/jobs/{job}",
        f"/api/v1/jobs/{job}/tasks",
        f"{API}/{job}",
        f"/api/v1/export/review?job={job}",
    ):
        assert token not in (await service.client.get(path)).text
    for table in ("jobs", "tasks", "changes", "idempotency", "evidence", "reviews"):
        assert token not in str(await service.app.database.fetch(f"SELECT * FROM {table}"))


async def test_a_job_of_another_pipeline_is_not_a_reviews_job(simple: Reviews) -> None:
    assert (await simple.client.get(f"{API}/0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11")).status_code == 404
