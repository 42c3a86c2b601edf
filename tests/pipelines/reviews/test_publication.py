"""Publications of reviews: values in, messages out."""

from typing import Any
from uuid import UUID

import pytest

from forager.core.change import Change
from forager.pipelines.reviews.publication import publication

JOB = UUID("0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11")
REVIEW = {
    "review_key": "7_8_x",
    "account_id": "7",
    "location_id": "8",
    "reviewId": "x",
    "rating": 4,
    "raw": {"reviewId": "x", "starRating": "FOUR"},
}
PAGE = {
    "task_id": "00000000-0007-8000-8000-000000000009",
    "kind": "reviews.reviews",
    "key": "7/8/2",
    "state": "failed",
    "reason": "token_refused",
    "error_type": "http",
    "error": "Google refused the request (401).",
    "attempts": 1,
    "input": {"account_id": "7", "location_id": "8", "page": 2, "page_token": "Q2"},
}


def change(kind: str, op: str, body: dict[str, Any] | None, version: int = 1) -> Change:
    return Change(5, kind, "key", op, version, JOB, "reviews", 1_700_000_000_000, body)


def test_a_review_is_published_with_every_field_of_the_topic_and_its_job_as_key__RV_9() -> None:
    message = publication.message(change("review", "new", REVIEW))
    assert message is not None
    assert (message.topic, message.key) == ("reviews-raw", str(JOB))
    assert message.value == {
        "job_id": JOB,
        "account_id": "7",
        "location_id": "8",
        "reviewId": "x",
        "reviewer": None,
        "rating": 4,
        "text": None,
        "createTime": None,
        "updateTime": None,
        "reply": None,
        "raw": REVIEW["raw"],
    }


def test_a_failed_page_is_published_with_its_context__RV_6() -> None:
    message = publication.message(change("task", "failed", PAGE))
    assert message is not None
    assert (message.topic, message.key) == ("reviews-dlq", str(JOB))
    assert message.value == {
        "job_id": JOB,
        "task_id": PAGE["task_id"],
        "stage": "reviews",
        "account_id": "7",
        "location_id": "8",
        "page": 2,
        "page_token": "Q2",
        "reason": "token_refused",
        "error_type": "http",
        "error": "Google refused the request (401).",
        "attempts": 1,
        "failed_at": 1_700_000_000_000,
    }


def test_a_new_page_is_published_for_kafka_workers_and_a_retry_is_not__RV_4() -> None:
    queued = {**PAGE, "state": "queued"}
    message = publication.message(change("task", "queued", queued))
    assert message is not None
    assert (message.topic, message.value["task_id"]) == ("fetch-reviews", PAGE["task_id"])
    assert publication.message(change("task", "queued", queued, version=2)) is None


@pytest.mark.parametrize(
    ("kind", "op", "body"),
    [
        ("task", "failed", {**PAGE, "kind": "other"}),
        ("review", "gone", REVIEW),
        ("review", "new", None),
        ("account", "new", {"account_id": "7"}),
        ("job", "ended", {"state": "completed"}),
    ],
)
def test_nothing_else_is_published(kind: str, op: str, body: dict[str, Any] | None) -> None:
    assert publication.message(change(kind, op, body)) is None


def test_a_dead_letter_whose_input_cannot_be_read_is_published_all_the_same() -> None:
    message = publication.message(change("task", "failed", {**PAGE, "input": "no JSON"}))
    assert message is not None
    assert (message.value["account_id"], message.value["reason"]) == (None, "token_refused")
