"""The queries of the places pipeline: find places, and count how full the pages of a ZIP were in earlier jobs."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Dialect, Row
from forager.core.errors import NotFound
from forager.pipelines.places.estimate import Density, Pages
from forager.pipelines.places.records import Place
from forager.sdk.queries import QueryPage, Walk, at, job_number, stored_key, walk
from forager.sdk.reports import Report

FULL_PAGE, FULL_MAP = 10, 20
JOBS_LOOKED_AT = 2_000
JOBS_READ = 50
TASKS_READ = 100_000


class PlaceReport(Report):
    """A business, with everything that is known of it."""

    keyword: str | None = Field(default=None, description="Keyword for which it was first found.")
    zip: str | None = Field(default=None, description="ZIP of its address, else the ZIP in which it was first found.")
    city: str | None = Field(default=None, description="City of its address.")
    place_uid: str = Field(description="placeId, else cid, else a hash of title and address.")
    title: str | None
    address: str | None
    phone: str | None
    website: str | None
    rating: float | None
    rating_count: int | None
    category: str | None
    latitude: float | None
    longitude: float | None
    cid: str | None
    place_id: str | None
    version: int = Field(description="Rises with every change.")
    first_seen_at: datetime
    last_seen_at: datetime
    changed_at: datetime = Field(description="Time of its last new version.")
    times_seen: int
    gone_at: datetime | None


class PlaceFilter(BaseModel):
    """Filters of places. Job, ZIP and category use an index; the others are applied page by page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: UUID | None = Field(default=None, description="Seen by this job.")
    zip: str | None = Field(default=None, description="Seen in this ZIP.")
    keyword: str | None = Field(default=None, description="Seen for this keyword.")
    state: str | None = Field(default=None, description="Seen in this state.")
    category: str | None = Field(
        default=None, description="Exactly this category, as `category` of a place has it: same case.", examples=["Bar"]
    )
    min_rating: float | None = Field(default=None, ge=0, le=5, description="Rated so, or better.")
    title: str | None = Field(
        default=None, min_length=1, description="This part is anywhere in the title, `A` to `Z` in any case."
    )


async def find_places(
    db: Database, asked: PlaceFilter | None = None, *, cursor: str | None = None, limit: int = 100
) -> QueryPage[PlaceReport]:
    """Return places sorted by discovery; with a ZIP, by place_uid."""
    plan = await walk_for(db, asked or PlaceFilter())
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=await _reports(db, rows), next_cursor=following)


async def one_place(db: Database, uid: str) -> PlaceReport:
    """Return a place by its uid, or by a cid with which it was seen. Raises `NotFound`."""
    uid = await stored_key(db, Place, uid)
    rows = await db.fetch("SELECT * FROM places WHERE place_uid = :uid", {"uid": uid})
    if not rows:
        raise NotFound(f"There is no place {uid!r}.")
    return (await _reports(db, rows))[0]


async def density(db: Database, *, keyword: str, state: str | None = None, full_page: int = FULL_PAGE) -> Density:
    """Count full and short pages by ZIP, from the newest jobs there: those for the same keyword first."""
    same: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    other: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    area, further = key_parts(db)
    for job in await _jobs_worth_reading(db, keyword, state):
        rows = await db.fetch(_PAGES.format(area=area, further=further), {"job": job["id"], "full": full_page})
        for row in rows:
            for seen in (same, other) if job["keyword"] == keyword and row["own"] else (other,):
                seen[row["zip"]][0] += row["full_pages"]
                seen[row["zip"]][1] += row["pages"] - row["full_pages"]
    return Density(same_keyword=_pages(same), any_keyword=_pages(other))


# A query's key is `<zip or area>/<page>`, and for a further keyword `<zip or area>/<page>/<keyword>`. The job's tasks
# of one kind are neighbours in uq_tasks_job_kind_key.
_REST = "substr(key, instr(key, '/') + 1)"
_PARTS: dict[Dialect, tuple[str, str]] = {
    "sqlite": (
        "substr(key, 1, instr(key, '/') - 1)",
        f"CASE WHEN instr({_REST}, '/') > 0 THEN substr({_REST}, instr({_REST}, '/') + 1) ELSE '' END",
    ),
    "postgresql": (
        "split_part(key, '/', 1)",
        "substr(key, length(split_part(key, '/', 1)) + length(split_part(key, '/', 2)) + 3)",
    ),
}
OF_QUERIES = "kind IN ('places.query', 'places.map_query')"
IS_FULL = (
    f"CAST(facts ->> 'results_count' AS INTEGER) >= CASE WHEN kind = 'places.map_query' THEN {FULL_MAP} ELSE :full END"
)


def key_parts(db: Database) -> tuple[str, str]:
    """Return SQL for the ZIP or area of a query's key, and for its further keyword, '' if it has the job's own."""
    return _PARTS[db.dialect]


_PAGES = f"""
SELECT {{area}} AS zip, {{further}} = '' AS own, count(*) AS pages,
       sum(CASE WHEN {IS_FULL} THEN 1 ELSE 0 END) AS full_pages
FROM tasks WHERE job_id = :job AND {OF_QUERIES} AND state = 4 GROUP BY 1, 2
"""


async def _jobs_worth_reading(db: Database, keyword: str, state: str | None) -> list[Row]:
    """Few and bounded in size, whatever the history: plans must be quick."""
    newest = f"SELECT id, pipeline, params, total, completed FROM jobs ORDER BY id DESC LIMIT {JOBS_LOOKED_AT}"
    rows = await db.fetch(
        "SELECT id, total, params ->> 'keyword' AS keyword, params ->> 'state' AS state"
        f" FROM ({newest}) w WHERE pipeline = 'places' AND completed > 0"
    )
    near = [row for row in rows if state is None or row["state"] in (None, state)]
    chosen: list[Row] = []
    left = TASKS_READ
    for row in sorted(near, key=lambda row: (row["keyword"] != keyword, -row["id"]))[:JOBS_READ]:
        if row["total"] <= left:
            left -= row["total"]
            chosen.append(row)
    return chosen


async def walk_for(db: Database, asked: PlaceFilter) -> Walk:
    """Return the walk along the most selective index; other filters are applied afterwards."""
    if asked.job is not None:
        return _seen_by_job(asked, await job_number(db, asked.job, past=True))
    if asked.zip is not None:
        return _seen_in_zip(asked)
    only, values = _of_place(asked, "w")
    if asked.keyword is not None or asked.state is not None:
        conditions, more = _of_sighting(asked, "s")
        exists = " AND ".join(("s.place_uid = w.place_uid", *conditions))
        # One place after the other: without the offset PostgreSQL would read every sighting first, to join them.
        seen = f"EXISTS (SELECT 1 FROM sightings s WHERE {exists} LIMIT 1 OFFSET 0)"
        only, values = [*only, seen], {**values, **more}
    where: tuple[str, ...] = ()
    if asked.category is not None:
        where, values = ("category = :category",), {**values, "category": asked.category}
    return Walk("places", "SELECT * FROM places", ("id",), where, only=tuple(only), values=values)


def _seen_by_job(asked: PlaceFilter, job: int) -> Walk:
    about_place, values = _of_place(asked, "p")
    about_sighting, more = _of_sighting(asked, "w")
    if asked.zip is not None:
        about_sighting, more = [*about_sighting, "w.zip = :zip"], {**more, "zip": asked.zip}
    if asked.category is not None:
        about_place, values = [*about_place, "p.category = :category"], {**values, "category": asked.category}
    return Walk(
        f"places of {asked.job}",
        "SELECT id, place_uid, zip, keyword, state FROM sightings",
        ("id",),
        ("job_id = :job",),
        columns="p.*",
        joins="JOIN places p ON p.place_uid = w.place_uid",
        only=(*about_sighting, *about_place),
        values={**values, **more, "job": job},
    )


def _seen_in_zip(asked: PlaceFilter) -> Walk:
    about_place, values = _of_place(asked, "p")
    about_sighting, more = _of_sighting(asked, "sightings")
    if asked.category is not None:
        about_place, values = [*about_place, "p.category = :category"], {**values, "category": asked.category}
    return Walk(
        f"places of ZIP {asked.zip}",
        "SELECT DISTINCT place_uid FROM sightings",  # every job with a query there sees the place again
        ("place_uid",),
        ("zip = :zip", *about_sighting),
        columns="p.*",
        joins="JOIN places p ON p.place_uid = w.place_uid",
        only=tuple(about_place),
        values={**values, **more, "zip": asked.zip},
    )


def _of_place(asked: PlaceFilter, name: str) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if asked.min_rating is not None:
        conditions.append(f"{name}.rating >= :min_rating")
        values["min_rating"] = float(asked.min_rating)
    if asked.title is not None:
        # Both sides use the database's own lower(): databases differ for letters beyond A to Z.
        conditions.append(f"lower({name}.title) LIKE lower(CAST(:title AS TEXT)) ESCAPE '!'")
        escaped = asked.title.replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values["title"] = f"%{escaped}%"
    return conditions, values


def _of_sighting(asked: PlaceFilter, name: str) -> tuple[list[str], dict[str, Any]]:
    """Filters the few sightings that an index has found: keywords have no index."""
    conditions: list[str] = []
    values: dict[str, Any] = {}
    if asked.keyword is not None:
        conditions.append(f"lower({name}.keyword) = lower(CAST(:keyword AS TEXT))")
        values["keyword"] = asked.keyword
    if asked.state is not None:
        conditions.append(f"{name}.state = :state")
        values["state"] = asked.state
    return conditions, values


AT_ONCE = 500
"""Places whose sightings are read by one statement."""
# `Stone Creek, AZ 85018` at the end of a United States address, with or without its country.
_CITY_AND_ZIP = re.compile(
    r"(?:^|,)\s*([^,\d][^,]*?),\s*[A-Z]{2}\s+(\d{5})(?:-\d{4})?(?:,\s*(?:USA|United States))?\s*$"
)


async def _reports(db: Database, rows: Sequence[Row]) -> list[PlaceReport]:
    """Add to each place what people sort a table by: keyword, ZIP and city. The first sighting counts."""
    first: dict[str, Row] = {}
    uids = [row["place_uid"] for row in rows]
    for start in range(0, len(uids), AT_ONCE):
        some = {f"u{n}": uid for n, uid in enumerate(uids[start : start + AT_ONCE])}
        seen = await db.fetch(
            "SELECT place_uid, job_id, keyword, zip FROM sightings"
            f" WHERE place_uid IN ({', '.join(f':{name}' for name in some)}) ORDER BY job_id DESC",
            some,
        )
        first |= {each["place_uid"]: each for each in seen}  # the oldest comes last, and stays
    return [_place(row, first.get(row["place_uid"])) for row in rows]


def _place(row: Row, seen: Row | None) -> PlaceReport:
    times = {name: at(row[name]) for name in ("first_seen_at", "last_seen_at", "changed_at", "gone_at")}
    city, code = city_and_zip(row["address"])
    keyword, queried = (None, None) if seen is None else (seen["keyword"], seen["zip"])
    return PlaceReport(**{**row, **times, "keyword": keyword, "zip": code or queried, "city": city})


def city_and_zip(address: str | None) -> tuple[str | None, str | None]:
    """Read the city and the ZIP from the end of an address; (None, None) if it does not end with them."""
    found = _CITY_AND_ZIP.search(address or "")
    return (found[1], found[2]) if found else (None, None)


def _pages(counted: dict[str, list[int]]) -> dict[str, Pages]:
    return {code: Pages(full, short) for code, (full, short) in counted.items()}
