"""The topics of reviews: `reviews-raw` with every review, once per job, and `reviews-dlq` with every failed page."""

from typing import Any

from forager.core.change import Change
from forager.kit.publication import Message, Publication
from forager.pipelines.reviews.records import Review
from forager.pipelines.reviews.tasks import AccountsPage, LocationsPage, ReviewsPage

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


def message(change: Change) -> Message | None:
    """A review that is new in its job, or a page that has failed. A page that is queued again is not published."""
    body = change.body
    if change.job is None or body is None:
        return None
    if change.kind == Review.kind and change.op == "new":
        review = {"job_id": change.job, **{name: body.get(name) for name in FIELDS}}
        return Message(RAW, str(change.job), review)
    if change.kind == "task" and change.op == "failed" and body.get("kind") in STAGES:
        return Message(DEAD_LETTERS, str(change.job), _dead_letter(change, dict(body)))
    return None


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


publication = Publication(topics=(RAW, DEAD_LETTERS), kinds=frozenset({Review.kind, "task"}), message=message)
