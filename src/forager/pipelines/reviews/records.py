"""The records of reviews: accounts, their locations, and the reviews of each location. All belong to their job.

Field names that the output topic fixes (`reviewId`, `createTime`, `updateTime`) keep Google's spelling. `raw` is the
object as Google sent it, so that a reader does not depend on this mapping.
"""

from typing import Any, ClassVar, Literal

from forager.core.record import Index, Record


class Account(Record):
    """One Google Business Profile account that the token can read, with or without locations."""

    kind: ClassVar[str] = "account"
    table: ClassVar[str] = "review_accounts"
    key_field: ClassVar[str] = "account_id"
    scope: ClassVar[Literal["world", "job"]] = "job"

    account_id: str
    account_name: str | None = None
    type: str | None = None
    role: str | None = None
    raw: dict[str, Any]


class Location(Record):
    """One location of one account. A location that two accounts share is a row of each."""

    kind: ClassVar[str] = "location"
    table: ClassVar[str] = "review_locations"
    key_field: ClassVar[str] = "location_key"
    scope: ClassVar[Literal["world", "job"]] = "job"

    location_key: str
    """`account_location`, because Google lists a shared location under each of its accounts."""
    account_id: str
    location_id: str
    title: str | None = None
    raw: dict[str, Any]


class Review(Record):
    """One review of one location. The first sighting in a job wins: a review that moved between pages is one row."""

    kind: ClassVar[str] = "review"
    table: ClassVar[str] = "reviews"
    key_field: ClassVar[str] = "review_key"
    scope: ClassVar[Literal["world", "job"]] = "job"
    # The nested output reads the reviews of one location of one job.
    indexes: ClassVar[tuple[Index, ...]] = (Index(("job_id", "account_id", "location_id", "id")),)

    review_key: str
    """`account_location_review` (RV-7)."""
    account_id: str
    location_id: str
    reviewId: str  # noqa: N815 - the topic's spelling
    reviewer: dict[str, Any] | None = None
    rating: int | None = None
    """1 to 5; None if Google gave no rating."""
    text: str | None = None
    createTime: str | None = None  # noqa: N815
    updateTime: str | None = None  # noqa: N815
    reply: dict[str, Any] | None = None
    raw: dict[str, Any]
