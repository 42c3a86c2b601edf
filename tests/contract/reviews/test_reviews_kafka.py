"""From a token to the topics: every review once, every failed page, and the token nowhere. On a mock cluster."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from forager.core.change import Change
from forager.core.ids import task_numbers
from forager.pipelines.reviews.publication import message
from forager.sandbox import Tenant
from tests.support import kafka
from tests.support.deliveries import deliver_new
from tests.support.engine import until
from tests.support.reviews import API, TOKEN, Reviews, open_reviews


async def run(service: Reviews) -> str:
    job = await service.fetch()
    await service.work()
    app = service.app
    assert await deliver_new(app.ledger, app.deliveries["kafka"].sink, app.clock, cursors=app.sinks)
    return job


def settings(folder: Path) -> dict[str, Any]:
    return {
        "kafka_brokers": kafka.brokers_of(folder),
        "kafka_topic_prefix": kafka.prefix_of(folder),
        "kafka_name": kafka.prefix_of(folder) + "reviews",
        "kafka_partitions": 0,
    }


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_every_stored_review_is_in_the_topic_once_with_its_job_as_key__RV_4(
    request: pytest.FixtureRequest, store: str, tmp_path: Path
) -> None:
    url = None if store == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with open_reviews(tmp_path, url, locations=6, **settings(tmp_path)) as service:
        job = await run(service)
        stored = await service.records("review", job)
        arrived = kafka.read_topic(tmp_path, "reviews-raw")
        assert {key for _, key, _ in arrived} == {job}
        names = [f"{each['account_id']}_{each['location_id']}_{each['reviewId']}" for _, _, each in arrived]
        assert sorted(names) == sorted(each["review_key"] for each in stored)
        by_name = {each["review_key"]: each for each in stored}
        assert all(each["raw"] == by_name[name]["raw"] for name, (_, _, each) in zip(names, arrived, strict=True))


async def test_failed_pages_are_dead_letters_of_the_topic_without_the_token__RV_6(tmp_path: Path) -> None:
    tenants = {"acme": Tenant(locations=6, expires_after=5)}
    async with open_reviews(tmp_path, tenants=tenants, **settings(tmp_path)) as service:
        job = await run(service)
        seen = await service.seen(job)
        letters = [value for _, _, value in kafka.read_topic(tmp_path, "reviews-dlq")]
        assert len(letters) == seen["failures"] > 0
        assert {(each["job_id"], each["reason"], each["error_type"]) for each in letters} == {
            (job, "token_refused", "http")
        }
        assert all(each["stage"] == "reviews" and each["location_id"] for each in letters if each["page"] > 1)
        assert TOKEN not in str(letters)


async def test_permanent_errors_and_publications_are_logged_with_their_context__RV_13(tmp_path: Path) -> None:
    tenants = {"acme": Tenant(locations=6, expires_after=5)}
    async with open_reviews(tmp_path, tenants=tenants, **settings(tmp_path)) as service:
        with capture_logs() as lines:
            made = await service.client.post(API, json={"access_token": TOKEN})
            job, request = made.json()["data"]["job_id"], made.headers["X-Request-ID"]
            await service.work()
            app = service.app
            assert await deliver_new(app.ledger, app.deliveries["kafka"].sink, app.clock, cursors=app.sinks)
            await until(lambda: any(line["event"] == "job_ended" for line in lines))
        letters = [value for _, _, value in kafka.read_topic(tmp_path, "reviews-dlq")]
        raw = [value for _, _, value in kafka.read_topic(tmp_path, "reviews-raw")]
    failed = [line for line in lines if line["event"] == "task_failed"]
    assert len(failed) == len(letters) > 0, "every page that failed permanently, not only the first"
    context = ("task_id", "stage", "account_id", "location_id", "page", "reason", "error_type", "error")
    by_task = {letter["task_id"]: letter for letter in letters}
    for line in failed:
        assert {name: line[name] for name in context} == {name: by_task[line["task_id"]][name] for name in context}
    assert {(line["job_id"], line["request_id"], line["log_level"]) for line in failed} == {(job, request, "error")}
    published = [line for line in lines if line["event"] == "job_published_to_kafka"]
    assert {(line["job_id"], line["request_id"], line["pipeline"]) for line in published} == {(job, request, "reviews")}
    told = Counter[Any]()
    for line in published:
        if line["topic"].endswith("reviews-raw"):
            told[line["account_id"], line["location_id"]] += line["messages"]
    assert told == Counter((each["account_id"], each["location_id"]) for each in raw)
    assert TOKEN not in str(lines)


@pytest.mark.parametrize(
    ("kind", "asked", "topic", "named"),
    [
        ("reviews.accounts", {"page": 1}, "fetch-accounts", {}),
        ("reviews.locations", {"account_id": "a", "page": 2}, "fetch-locations", {"account_id": "a"}),
        (
            "reviews.reviews",
            {"account_id": "a", "location_id": "l", "page_token": "t"},
            "fetch-reviews",
            {"account_id": "a", "location_id": "l"},
        ),
    ],
)
def test_a_new_page_is_a_message_of_its_stage_and_a_requeued_one_is_not__RV_4(
    kind: str, asked: dict[str, Any], topic: str, named: dict[str, str]
) -> None:
    job = uuid4()
    body = {"task_id": "t-1", "kind": kind, "key": "1", "state": "queued", "attempts": 0, "input": asked}
    new = Change(1, "task", "t-1", "queued", 1, job, "reviews", 0, body)
    sent = message(new)
    assert sent is not None
    assert (sent.topic, sent.key, sent.value) == (topic, str(job), {"job_id": job, "task_id": "t-1", **named})
    assert message(replace(new, version=2)) is None


async def test_where_kafka_workers_do_the_work_the_first_page_is_published_with_its_job__RV_4(
    app_postgres_url: str, tmp_path: Path
) -> None:
    async with open_reviews(tmp_path, app_postgres_url, **settings(tmp_path), kafka_tasks=True) as service:
        job, app = await service.fetch(), service.app
        assert await deliver_new(app.ledger, app.deliveries["kafka"].sink, app.clock, cursors=app.sinks)
        ((_, key, value),) = kafka.read_topic(tmp_path, "fetch-accounts")
        assert (key, value["job_id"]) == (job, job)
        numbers = task_numbers(UUID(value["task_id"]))
        (row,) = await app.database.fetch("SELECT job_id, task_id, state, offered FROM queue")
        assert numbers == (row["job_id"], row["task_id"])
        assert (row["state"], row["offered"]) == (1, True)
        (task,) = await app.reports.queued_tasks(UUID(job))
        assert task.is_offered, "its wait names the offer"
        assert TOKEN not in str(value)
