"""The three kinds of task: one page of accounts, of an account's locations, of a location's reviews.

One task per page, so that a crash or an expired token costs one page. The token is not in a task: a step names the
job's secret, and it is filled in at the moment of sending.
"""

from typing import ClassVar

from forager.core.task import Task

ACCOUNTS_LANE, LOCATIONS_LANE, REVIEWS_LANE = "google:accounts", "google:locations", "google:reviews"
LANES = (ACCOUNTS_LANE, LOCATIONS_LANE, REVIEWS_LANE)
"""One lane per host: each of Google's three APIs has a quota of its own."""
QUEUES = dict(zip(LANES, ("account-worker", "location-worker", "review-worker"), strict=True))
"""One queue per stage, so that each can have workers of its own."""


class AccountsPage(Task):
    """One page of the accounts that the token can read."""

    kind: ClassVar[str] = "reviews.accounts"

    page: int = 1
    page_token: str | None = None

    def key(self) -> str:
        return str(self.page)

    def lane(self) -> str:
        return ACCOUNTS_LANE

    def next(self, page_token: str) -> "AccountsPage":
        return AccountsPage(page=self.page + 1, page_token=page_token)


class LocationsPage(Task):
    """One page of an account's locations."""

    kind: ClassVar[str] = "reviews.locations"

    account_id: str
    page: int = 1
    page_token: str | None = None

    def key(self) -> str:
        return f"{self.account_id}/{self.page}"

    def lane(self) -> str:
        return LOCATIONS_LANE

    def next(self, page_token: str) -> "LocationsPage":
        return LocationsPage(account_id=self.account_id, page=self.page + 1, page_token=page_token)


class ReviewsPage(Task):
    """One page of a location's reviews."""

    kind: ClassVar[str] = "reviews.reviews"

    account_id: str
    location_id: str
    page: int = 1
    page_token: str | None = None

    def key(self) -> str:
        return f"{self.account_id}/{self.location_id}/{self.page}"

    def lane(self) -> str:
        return REVIEWS_LANE

    def next(self, page_token: str) -> "ReviewsPage":
        return ReviewsPage(
            account_id=self.account_id, location_id=self.location_id, page=self.page + 1, page_token=page_token
        )
