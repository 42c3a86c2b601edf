"""The topics of reviews: `reviews-raw` with every review, once per job, and `reviews-dlq` with every failed page. Where
Kafka consumers do the work, also `fetch-accounts`, `fetch-locations` and `fetch-reviews`: every new page to fetch."""

from typing import Any

from forager.core.change import Change
from forager.pipelines.reviews.records import Review
from forager.pipelines.reviews.tasks import (
    ACCOUNTS_LANE,
    LOCATIONS_LANE,
    QUEUES,
    REVIEWS_LANE,
    AccountsPage,
    LocationsPage,
    ReviewsPage,
)
from forager.sdk.delivery import Publication, PublishedMessage, PublishedStage

RAW, DEAD_LETTERS = "reviews-raw", "reviews-dlq"
FIELDS = (
    "account_id",
    "location_id",
    "reviewId",
    "reviewer",
    "rating",
    "text",
    "createTime",
    "updateTime",
    "reply",
    "raw",
)
STAGES = {AccountsPage.kind: "accounts", LocationsPage.kind: "locations", ReviewsPage.kind: "reviews"}

FETCH = tuple(
    PublishedStage(kind.kind, f"fetch-{STAGES[kind.kind]}", lane, QUEUES[lane])
    for kind, lane in (
        (AccountsPage, ACCOUNTS_LANE),
        (LocationsPage, LOCATIONS_LANE),
        (ReviewsPage, REVIEWS_LANE),
    )
)
FETCH_TOPICS = {stage.kind: stage.topic for stage in FETCH}


def message(change: Change) -> PublishedMessage | None:
    """Return the message for a review that is new in its job, a page that is new, or one that has failed. A page that
    is queued again is not published: retries are the ledger's."""
    if change.kind == Review.kind:
        return _review(change) if change.op == "new" else None
    body = change.body
    if change.job is None or body is None:
        return None
    if change.kind == "task" and change.op == "failed" and body.get("kind") in STAGES:
        return PublishedMessage(DEAD_LETTERS, str(change.job), _dead_letter(change, dict(body)))
    if change.kind == "task" and change.op == "queued" and change.version == 1 and body.get("kind") in FETCH_TOPICS:
        return PublishedMessage(FETCH_TOPICS[body["kind"]], str(change.job), _page(change, dict(body)))
    return None


def _review(change: Change) -> PublishedMessage | None:
    fields = change.fields
    if change.job is None or fields is None:
        return None
    return PublishedMessage(RAW, str(change.job), {"job_id": change.job, **{name: fields.get(name) for name in FIELDS}})


def _page(change: Change, body: dict[str, Any]) -> dict[str, Any]:
    asked = body.get("input")
    known = asked if isinstance(asked, dict) else {}
    named = {name: known[name] for name in ("account_id", "location_id") if name in known}
    return {"job_id": change.job, "task_id": body.get("task_id"), **named}


def _dead_letter(change: Change, body: dict[str, Any]) -> dict[str, Any]:
    asked = body.get("input")
    known = asked if isinstance(asked, dict) else {}
    return {
        "job_id": change.job,
        "task_id": body.get("task_id"),
        "stage": STAGES[body["kind"]],
        "account_id": known.get("account_id"),
        "location_id": known.get("location_id"),
        "page": known.get("page", 1),
        "page_token": known.get("page_token"),
        "reason": body.get("reason"),
        "error_type": body.get("error_type"),
        "error": body.get("error"),
        "attempts": body.get("attempts"),
        "failed_at": change.at,
    }


publication = Publication(
    topics=(RAW, DEAD_LETTERS), kinds=frozenset({Review.kind, "task"}), message=message, stages=FETCH
)
