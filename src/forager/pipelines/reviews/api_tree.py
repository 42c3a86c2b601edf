"""A reviews job for people: accounts with their locations, the reviews of one location, the rating over time.

Every query walks the index of reviews by job, account and location.
"""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.database import Database
from forager.pipelines.reviews.reports import review_body
from forager.pipelines.reviews.wiring import review_job
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import PageQuery, Router, example, failures
from forager.sdk.queries import QueryPage, Walk, job_number, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

MOST_LOCATIONS = 5_000
_COUNTS = """
SELECT account_id, location_id, count(*) AS reviews, avg(rating) AS rating,
       sum(CASE WHEN reply IS NULL THEN 0 ELSE 1 END) AS answered
FROM reviews WHERE job_id = :job GROUP BY account_id, location_id
"""
_LOCATIONS = """
SELECT account_id, location_id, title FROM review_locations WHERE job_id = :job ORDER BY id LIMIT :most
"""
_ACCOUNTS = "SELECT account_id, account_name, type, role FROM review_accounts WHERE job_id = :job ORDER BY id"
_MONTHS = """
SELECT substr("createTime", 1, 7) AS month, rating, count(*) AS n FROM reviews
WHERE job_id = :job AND (:account = '' OR account_id = :account) AND (:location = '' OR location_id = :location)
AND "createTime" IS NOT NULL GROUP BY substr("createTime", 1, 7), rating ORDER BY month
"""


class LocationNode(Report):
    location_id: str
    title: str | None
    reviews: int
    answered: int = Field(description="Reviews with a reply of the owner.")
    rating: float | None = Field(description="Mean of the ratings.")


class AccountNode(Report):
    account_id: str
    account_name: str | None
    type: str | None
    role: str | None
    locations: list[LocationNode]


class Chosen(BaseModel):
    """Filters for the reviews of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    account: str = Field(default="", max_length=200, description="Account id.")
    location: str = Field(default="", max_length=200, description="Location id.")


class ReviewsQuery(PageQuery, Chosen):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=50, ge=1, le=1_000, description="Maximum items per page.")
    rating: int | None = Field(default=None, ge=1, le=5, description="Number of stars.")
    unanswered: bool = Field(default=False, description="Only reviews without a reply.")


class MonthRating(Report):
    month: str = Field(description="Such as 2026-03.")
    reviews: int
    rating: float | None = Field(description="Mean of the ratings of this month.")


class Ratings(Report):
    months: list[MonthRating] = Field(description="Oldest first; months without a review are left out.")
    stars: dict[str, int] = Field(description="Number of reviews by stars, `1` to `5`.")


def add_tree(router: Router, service: Service) -> None:
    @router.get(
        "/review-fetch/{job_id}/tree",
        summary="Show the accounts and locations of a reviews job",
        response_model=Envelope[list[AccountNode]],
        responses={200: example([_ACCOUNT]), **failures(404)},
    )
    async def show_review_tree(request: Request, job_id: UUID) -> Response:
        """As far as it was found, with the number of reviews and the mean rating; at most 5,000 locations."""
        await review_job(service, job_id)
        return answer(request, await tree(service.database, job_id))

    @router.get(
        "/review-fetch/{job_id}/reviews",
        summary="List the reviews of a job",
        response_model=ResultPage[dict[str, Any]],
        responses={200: example([_REVIEW], next_cursor=None), **failures(404)},
    )
    async def list_reviews(request: Request, job_id: UUID, asked: Annotated[ReviewsQuery, Query()]) -> Response:
        """In the order in which they were found; a page may be short and still have a next one."""
        await review_job(service, job_id)
        found = await reviews(service.database, job_id, asked)
        return page(request, found.items, found.next_cursor)

    @router.get(
        "/review-fetch/{job_id}/ratings",
        summary="Show ratings over time",
        response_model=Envelope[Ratings],
        responses={200: example(_RATINGS), **failures(404)},
    )
    async def show_ratings(request: Request, job_id: UUID, asked: Annotated[Chosen, Query()]) -> Response:
        """Counts reviews by the month in which they were written, and by stars."""
        await review_job(service, job_id)
        return answer(request, await ratings(service.database, job_id, asked))


async def tree(db: Database, job: UUID) -> list[AccountNode]:
    """Accounts in the order in which they were found, each with its locations."""
    number = await job_number(db, job)
    counted = {(row["account_id"], row["location_id"]): row for row in await db.fetch(_COUNTS, {"job": number})}
    accounts = {
        row["account_id"]: AccountNode(**row, locations=[]) for row in await db.fetch(_ACCOUNTS, {"job": number})
    }
    for row in await db.fetch(_LOCATIONS, {"job": number, "most": MOST_LOCATIONS}):
        count = counted.get((row["account_id"], row["location_id"]))
        node = LocationNode(
            location_id=row["location_id"],
            title=row["title"],
            reviews=count["reviews"] if count else 0,
            answered=int(count["answered"]) if count else 0,
            rating=round(float(count["rating"]), 2) if count and count["rating"] is not None else None,
        )
        if row["account_id"] in accounts:
            accounts[row["account_id"]].locations.append(node)
    return list(accounts.values())


async def reviews(db: Database, job: UUID, asked: ReviewsQuery) -> QueryPage[dict[str, Any]]:
    """Return a page of reviews."""
    where = ["job_id = :job"]
    values: dict[str, Any] = {"job": await job_number(db, job)}
    for column, value in (("account_id", asked.account), ("location_id", asked.location)):
        if value:
            where.append(f"{column} = :{column}")
            values[column] = value
    only: list[str] = []
    if asked.rating is not None:
        only.append("w.rating = :rating")
        values["rating"] = asked.rating
    if asked.unanswered:
        only.append("w.reply IS NULL")
    source = (
        'SELECT id, account_id, location_id, "reviewId", reviewer, rating, text, "createTime", "updateTime", reply,'
        " job_id FROM reviews"
    )
    plan = Walk(f"reviews of {job}", source, ("id",), tuple(where), descending=True, only=tuple(only), values=values)
    rows, following = await walk(db, plan, asked.cursor, asked.limit)
    shown = [{name: value for name, value in review_body(row).items() if name != "job_id"} for row in rows]
    return QueryPage(items=shown, next_cursor=following)


async def ratings(db: Database, job: UUID, asked: Chosen) -> Ratings:
    """Means by month, and counts by stars."""
    values = {"job": await job_number(db, job), "account": asked.account, "location": asked.location}
    months: dict[str, list[int]] = {}
    stars = dict.fromkeys("12345", 0)
    for row in await db.fetch(_MONTHS, values):
        count, total, rated = months.setdefault(row["month"], [0, 0, 0])
        known = row["rating"] or 0
        months[row["month"]] = [
            count + row["n"], total + known * row["n"], rated + (row["n"] if known else 0)
        ]  # fmt: skip
        if str(known) in stars:
            stars[str(known)] += row["n"]
    return Ratings(
        months=[
            MonthRating(month=month, reviews=count, rating=round(total / rated, 2) if rated else None)
            for month, (count, total, rated) in months.items()
        ],
        stars=stars,
    )


_ACCOUNT = {
    "account_id": "1",
    "account_name": "Juniper Gardens",
    "type": "PERSONAL",
    "role": "PRIMARY_OWNER",
    "locations": [{"location_id": "7", "title": "Harbor Dental", "reviews": 51, "answered": 20, "rating": 4.2}],
}
_REVIEW = {
    "account_id": "1",
    "location_id": "7",
    "reviewId": "AbFvOq",
    "reviewer": {"displayName": "I. G."},
    "rating": 4,
    "text": "Clean and quiet.",
    "createTime": "2026-03-13T07:25:59Z",
    "updateTime": "2026-03-13T07:25:59Z",
    "reply": None,
}
_RATINGS = {
    "months": [{"month": "2026-03", "reviews": 12, "rating": 4.1}],
    "stars": {"1": 0, "2": 1, "3": 2, "4": 3, "5": 6},
}
