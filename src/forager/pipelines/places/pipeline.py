"""Business listings by keyword and ZIP code, through the Serper places API.

The pipeline as a value. What comes from settings is an argument of `build`; nothing here reads a setting.
"""

from collections.abc import Iterator

from forager.core.errors import Retry
from forager.core.pipeline import JobLimits, Lane, Pipeline, step
from forager.core.record import validated
from forager.core.task import Plan
from forager.pipelines.places.job import LANE, AreaQuery, PlacesJob, Query, check, point_of, zip_codes
from forager.pipelines.places.parse import CREDIT
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.steps import REASONS, Serper
from forager.pipelines.places.zips import ZipTable

NAME = "places"
SERPER_LANE = Lane(
    LANE,
    rate=300,
    burst=10,  # lets a worker that woke up 30 ms late catch up; the one-second window holds whatever the burst
    concurrency=1_000,
    retry=Retry(3, first=5.0),
)


def plan(job: PlacesJob, zips: ZipTable) -> Iterator[Plan]:
    """Plan one query per keyword, ZIP and page. Each page waits for the one before it, so that pages after a short one
    are skipped and cost nothing."""
    pages = job.pages
    on_map = job.areas is not None and point_of(job.areas[0]) is not None
    new = validated(AreaQuery if on_map else Query)  # for every task of a job, of which there may be a million
    optional = {name: value for name, value in (("country", job.country), ("language", job.language)) if value}
    for keyword in (job.keyword, *job.more_keywords):
        further = {"further": True} if keyword != job.keyword else {}
        for zip_code in zip_codes(job, zips):
            known = None if job.areas is not None else zips.get(zip_code)
            state = known.state if known else job.state
            fixed = {"keyword": keyword, "zip": zip_code, "pages": pages, "state": state, **optional, **further}
            for page in range(job.first_page, pages + 1):
                query = new({**fixed, "page": page})
                yield Plan(query, rank=page, after=query.previous() if page > job.first_page else None)


def limits(job: PlacesJob) -> JobLimits:
    return JobLimits(max_cost=job.max_credits, batch_size=job.batch_size, concurrency=job.concurrency)


def build(
    serper: Serper | None = None,
    *,
    lane: Lane = SERPER_LANE,
    params: type[PlacesJob] = PlacesJob,
) -> Pipeline:
    """Build the pipeline for this upstream, lane and job class (see `places_params` for one with other defaults)."""
    serper = serper or Serper()
    # The attempt's own limit only backs up the request's time-out, so it must lie beyond it.
    search = step(Query, serper.search, price=CREDIT, timeout=serper.timeout + 30.0)
    search_map = step(AreaQuery, serper.search, price=serper.map_credits, timeout=serper.timeout + 30.0)
    return Pipeline(
        name=NAME,
        params=params,
        plan=plan,
        steps=(search, search_map),
        records=(Place, Sighting),
        lanes=(lane,),
        limits=limits,
        check=check,
        needs=("zips",),
        dry_run=lambda job: bool(job.dry_run),
        reasons=REASONS,
    )


places = build()
