"""Data for the map of places: points of many places at once, and the coverage of each ZIP of a job."""

from typing import Any
from uuid import UUID

from pydantic import Field

from forager.core.database import Database
from forager.core.errors import NotFound
from forager.pipelines.places.reports import FULL_PAGE, IS_FULL, OF_QUERIES, PlaceFilter, key_parts, walk_for
from forager.sdk.queries import MOST, job_number, walk
from forager.sdk.reports import Report

MOST_POINTS = 20_000
COLUMNS = ("place_uid", "title", "latitude", "longitude", "rating", "rating_count", "category", "address")

_ZIPS = f"""
SELECT {{area}} AS zip, {{further}} AS further, count(*) AS pages,
       sum(CASE WHEN state = 4 THEN 1 ELSE 0 END) AS read,
       sum(CASE WHEN state = 4 AND {IS_FULL} THEN 1 ELSE 0 END) AS full_pages,
       sum(CASE WHEN state = 4 THEN CAST(facts ->> 'results_count' AS INTEGER) ELSE 0 END) AS places,
       sum(CASE WHEN state = 5 THEN 1 ELSE 0 END) AS failed,
       sum(CASE WHEN state = 6 THEN 1 ELSE 0 END) AS skipped
FROM tasks WHERE job_id = :job AND {OF_QUERIES} GROUP BY 1, 2 ORDER BY 1, 2
"""
_NEWEST = "SELECT public_id FROM jobs WHERE pipeline = 'places' AND total > 0 ORDER BY id DESC LIMIT 1"


class PlacePoints(Report):
    columns: list[str] = Field(description="Names of the values of a point, in their order.")
    points: list[list[Any]]
    without_place: int = Field(description="Places that match and have no coordinates.")
    more: bool = Field(description="True if further places match; narrow the search to see them.")


class ZipCoverage(Report):
    """Coverage of one ZIP or area by one keyword: the pages that were read and where they ended."""

    zip: str = Field(description="The ZIP; or the area, as the job names it.")
    keyword: str | None = Field(
        default=None, description="One of `more_keywords`, for which the area was also searched; null: the job's own."
    )
    pages: int = Field(description="Pages that the job may read.")
    read: int = Field(description="Pages that were read.")
    full: int = Field(description="Pages among these that were full.")
    places: int = Field(description="Places on them, with repeats.")
    failed: int
    state: str = Field(
        description="complete (its last page was not full), cut_off (every allowed page was full: there may be more "
        "places), empty (no place), failed, or open (not read to its end yet)"
    )


class Coverage(Report):
    job_id: UUID
    zips: list[ZipCoverage]


async def points(db: Database, asked: PlaceFilter) -> PlacePoints:
    """Return up to 20,000 points, in the order of the list of places."""
    found: list[list[Any]] = []
    missing, cursor = 0, None
    plan = await walk_for(db, asked)
    while len(found) + missing < MOST_POINTS:
        rows, cursor = await walk(db, plan, cursor, MOST)
        placed = [row for row in rows if row["latitude"] is not None and row["longitude"] is not None]
        found.extend([row[name] for name in COLUMNS] for row in placed)
        missing += len(rows) - len(placed)
        if cursor is None:
            break
    return PlacePoints(columns=list(COLUMNS), points=found, without_place=missing, more=cursor is not None)


async def coverage(db: Database, job: UUID | None) -> Coverage:
    """Return the ZIPs of a job, or of the newest one. Raises `NotFound` without one."""
    if job is None:
        newest = await db.fetch(_NEWEST)
        if not newest:
            raise NotFound("There is no places job yet.")
        job = UUID(newest[0]["public_id"])
    area, further = key_parts(db)
    values = {"job": await job_number(db, job), "full": FULL_PAGE}
    rows = await db.fetch(_ZIPS.format(area=area, further=further), values)
    return Coverage(job_id=job, zips=[_zip(row) for row in rows])


def _zip(row: Any) -> ZipCoverage:
    counts = {name: int(row[name] or 0) for name in ("pages", "read", "places", "failed")}
    full, skipped = int(row["full_pages"] or 0), int(row["skipped"] or 0)
    if counts["failed"]:
        state = "failed"
    elif counts["read"] + skipped < counts["pages"] or not counts["read"]:
        state = "open"
    elif not counts["places"]:
        state = "empty"
    else:
        state = "cut_off" if full == counts["pages"] else "complete"
    return ZipCoverage(zip=row["zip"], keyword=row["further"] or None, full=full, state=state, **counts)
