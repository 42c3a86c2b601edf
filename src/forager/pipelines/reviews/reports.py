"""The queries about a reviews job: exact counts, and its records nested for people.

The nested output is read location by location along the index of reviews, so that its cost grows with the job and not
with the table, and one location at a time is in memory.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import orjson
from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Row
from forager.pipelines.reviews.pipeline import NAME, ReviewsJob
from forager.pipelines.reviews.tasks import REVIEWS_LANE
from forager.sdk.feature import Figure
from forager.sdk.queries import job_number, loads
from forager.sdk.service import Service

COUNTS = {"accounts": "review_accounts", "locations": "review_locations", "reviews": "reviews"}
PAGE = 500
LOOKED_AT = 50
"""Newest completed jobs that are searched for one like a planned job."""
UNSURE = 10_000
"""Newest jobs that are counted again: a transaction with a lower number may commit later."""
MOST_BYTES = 50 * 1024 * 1024
"""A nested answer that is larger is not for a browser: the export is."""


async def counts(db: Database, job: UUID) -> dict[str, int]:
    """Return the numbers of accounts, locations and reviews that a job has stored."""
    number = await job_number(db, job)
    stored = {}
    for name, table in COUNTS.items():
        (row,) = await db.fetch(f"SELECT count(*) AS n FROM {table} WHERE job_id = :job", {"job": number})
        stored[name] = int(row["n"])
    return stored


class ReviewsPlan(BaseModel):
    """Estimated requests and time of a reviews job, by the newest completed one. Making it sends nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "based_on": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
                    "accounts": 2,
                    "locations": 60,
                    "reviews": 2_900,
                    "requests": 124,
                    "requests_per_second": 10.0,
                    "seconds": 12.4,
                }
            ]
        }
    )

    based_on: UUID | None = Field(description="Job that the numbers are of; null: none was completed yet.")
    accounts: int | None
    locations: int | None
    reviews: int | None
    requests: int | None = Field(
        description="Requests to Google's three APIs; they cost nothing, but use up its quota."
    )
    requests_per_second: float | None = Field(description="To each API, at the pace in force.")
    seconds: float | None = Field(description="At this pace, after the first requests that may be sent at once.")


async def plan_reviews(service: Service, job: ReviewsJob) -> ReviewsPlan:
    """Estimate a job by the newest one that was completed, of the same login if the job names one."""
    lane = service.lane_for(REVIEWS_LANE)
    pace = lane.rate / lane.per if lane.rate else None
    done = (await service.reports.jobs(pipeline=NAME, state="completed", limit=LOOKED_AT)).items
    like = next((each for each in done if job.login in (None, each.params.get("login"))), None)
    if like is None:
        names = ("based_on", "accounts", "locations", "reviews", "requests", "seconds")
        return ReviewsPlan(**dict.fromkeys(names), requests_per_second=pace)
    waits = max(0, like.total - (lane.burst or 0))
    return ReviewsPlan(
        based_on=like.id,
        **await counts(service.database, like.id),
        requests=like.total,
        requests_per_second=pace,
        seconds=None if pace is None else round(waits / pace, 1),
    )


_BOTH = (
    "(SELECT id, pipeline FROM jobs WHERE id > :after UNION ALL SELECT id, pipeline FROM past_jobs WHERE id > :after)"
)
_NEWEST = "SELECT max(id) AS id FROM jobs"
_ACCEPTED = f"""
SELECT coalesce(sum(CASE WHEN id <= :until THEN 1 ELSE 0 END), 0) AS sure,
       coalesce(sum(CASE WHEN id <= :until THEN 0 ELSE 1 END), 0) AS newer
FROM {_BOTH} j WHERE pipeline = :name
"""
_WAITING = """
SELECT count(*) AS waiting FROM jobs WHERE pipeline = :name AND finished_at IS NULL AND started_at IS NULL
"""


class _Accepted:
    """Counts the jobs that were ever accepted. Only those since the last count are read: a job that is removed keeps
    its number in `past_jobs`."""

    def __init__(self) -> None:
        self._until = self._counted = 0

    async def count(self, db: Database) -> int:
        (top,) = await db.fetch(_NEWEST)
        before, counted = self._until, self._counted
        until = max(before, int(top["id"] or 0) - UNSURE)
        (row,) = await db.fetch(_ACCEPTED, {"name": NAME, "after": before, "until": until})
        self._until, self._counted = until, counted + int(row["sure"])
        return counted + int(row["sure"]) + int(row["newer"])


_accepted: WeakKeyDictionary[Database, _Accepted] = WeakKeyDictionary()
"""The count of each open store."""


async def figures(service: Service) -> list[Figure]:
    """Return the figures of `/metrics` about the queue of jobs (RV-1). Those of the ledger are shared."""
    enqueued = await _accepted.setdefault(service.database, _Accepted()).count(service.database)
    (row,) = await service.database.fetch(_WAITING, {"name": NAME})
    waiting = int(row["waiting"])
    return [
        Figure("forager_review_jobs_enqueued", "Reviews jobs that were ever accepted.", enqueued),
        Figure("forager_review_jobs_dequeued", "Reviews jobs that have left the queue.", enqueued - waiting),
        Figure("forager_review_jobs_waiting", "Reviews jobs that wait for their first request.", waiting),
        Figure(
            "forager_review_jobs_rejected",
            "Reviews jobs that this process refused, because the queue was full.",
            service.refused.get(NAME, 0),
        ),
    ]


async def nested(db: Database, job: UUID) -> AsyncIterator[bytes]:
    """`[{account, locations: [{location, reviews: […]}]}]` as JSON, in parts of at most one page of reviews."""
    number = await job_number(db, job)
    accounts = await db.fetch(
        "SELECT account_id, raw FROM review_accounts WHERE job_id = :job ORDER BY id", {"job": number}
    )
    yield b"["
    for n, account in enumerate(accounts):
        yield (b"," if n else b"") + b'{"account":' + _raw(account) + b',"locations":['
        async for part in _locations(db, number, account["account_id"]):
            yield part
        yield b"]}"
    yield b"]"


async def _locations(db: Database, job: int, account: str) -> AsyncIterator[bytes]:
    after, first = 0, True
    while True:
        rows = await db.fetch(
            "SELECT id, location_id, raw FROM review_locations"
            " WHERE job_id = :job AND account_id = :account AND id > :after ORDER BY id LIMIT :page",
            {"job": job, "account": account, "after": after, "page": PAGE},
        )
        for row in rows:
            yield (b"" if first else b",") + b'{"location":' + _raw(row) + b',"reviews":['
            async for part in _reviews(db, job, account, row["location_id"]):
                yield part
            yield b"]}"
            after, first = row["id"], False
        if len(rows) < PAGE:
            return


async def _reviews(db: Database, job: int, account: str, location: str) -> AsyncIterator[bytes]:
    after, first = 0, True
    while True:
        rows = await db.fetch(
            'SELECT id, account_id, location_id, "reviewId", reviewer, rating, text, "createTime", "updateTime",'
            " reply FROM reviews WHERE job_id = :job AND account_id = :account AND location_id = :location"
            " AND id > :after ORDER BY id LIMIT :page",
            {"job": job, "account": account, "location": location, "after": after, "page": PAGE},
        )
        if rows:
            yield (b"" if first else b",") + b",".join(orjson.dumps(review_body(row)) for row in rows)
            after, first = rows[-1]["id"], False
        if len(rows) < PAGE:
            return


def review_body(row: Row) -> Mapping[str, Any]:
    """Return a review as the output shows it, without Google's whole object."""
    leaves = {name: loads(row[name]) for name in ("reviewer", "reply")}
    return {name: value for name, value in {**row, **leaves}.items() if name != "id"}


def _raw(row: Row) -> bytes:
    return orjson.dumps(loads(row["raw"]))


async def nested_size(db: Database, job: UUID) -> int:
    """About how many bytes the nested output has: rows times the mean size of some of them."""
    number, stored = await job_number(db, job), await counts(db, job)
    rows = await db.fetch(
        "SELECT avg(length(CAST(raw AS TEXT))) AS mean FROM (SELECT raw FROM reviews WHERE job_id = :job LIMIT 200) r",
        {"job": number},
    )
    return round(stored["reviews"] * float(rows[0]["mean"] or 0) + 1_000 * (stored["accounts"] + stored["locations"]))
