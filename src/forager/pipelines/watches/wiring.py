"""Builds the watches pipeline, and its work outside of tasks."""

from datetime import timedelta
from uuid import UUID

import structlog

from forager.core.errors import FieldError, ForagerError, NotFound, Rejected, StoreError
from forager.core.pipeline import Pipeline
from forager.core.table import Effect
from forager.pipelines.watches import pipeline
from forager.pipelines.watches.pipeline import WatchJob
from forager.pipelines.watches.records import PageWatch
from forager.sdk.queries import at, change_row, one_row
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

log = structlog.get_logger("forager.watches")
EVERY = 15.0
"""Seconds between two searches for watches that nothing will check."""
GRACE = timedelta(seconds=30)
"""Time that the creation of a job is given."""
_UNSEEN = """
SELECT w.name, w.every, w.job, w.asked_at, w.failed_at, w.created_at, p.watch AS seen
FROM page_watches w LEFT JOIN watched_pages p
  ON p.watch = w.name AND (w.leftover_at IS NULL OR p.checked_at <> w.leftover_at)
WHERE NOT w.paused AND (w.job IS NULL OR p.watch IS NULL)
"""
_TAKE = """
UPDATE page_watches SET asked_at = :now, job = NULL
WHERE name = :name AND coalesce(asked_at, 0) = :asked AND coalesce(job, '') = :job RETURNING name
"""


def build(_: SettingsTree) -> Pipeline:
    return pipeline.build()


async def start_check(service: Service, name: str) -> UUID:
    """Create the job of a check, and note it with its watch: one that is not noted is created again."""
    made = await service.submit(pipeline.NAME, {"watch": name})
    await change_row(service.database, Effect(PageWatch, {"name": name}, set={"job": str(made.job)}))
    return made.job


async def upkeep(service: Service) -> None:
    """Check watches that nothing else will check, until cancelled. If the store is away, try again later."""
    while True:
        try:
            await check_forgotten(service)
        except StoreError as error:
            log.warning("watches_not_looked_at", error=error.message)
        await service.clock.sleep(EVERY)


async def check_forgotten(service: Service) -> int:
    """Start a check of each watch whose page was never read and whose time has come, or whose first check was not
    created because a process was killed. Returns how many.

    A page that was read once has a record with the time of its next check. Until then, only this loop checks it.
    """
    now, started = await service.ledger.now(), 0
    for row in await service.database.fetch(_UNSEEN):
        asked = at(row["asked_at"]) or at(row["created_at"]) or now
        if row["job"] is None:
            is_due = asked + GRACE <= now
        else:
            last = max(asked, at(row["failed_at"]) or asked)
            is_due = last + timedelta(seconds=row["every"]) <= now and await _has_ended(service, row["job"])
        if not is_due:
            continue
        values = {"name": row["name"], "asked": row["asked_at"] or 0, "job": row["job"] or ""}
        moment = round(now.timestamp() * 1000)
        if await service.database.write(_TAKE, {**values, "now": moment}):  # one of several processes
            try:
                await start_check(service, row["name"])
                started += 1
            except StoreError:
                raise
            except ForagerError as error:
                log.warning("watch_not_checked", watch=row["name"], error=error.message)
    return started


async def _has_ended(service: Service, job: str) -> bool:
    try:
        return (await service.reports.job(UUID(job))).finished_at is not None
    except NotFound:
        return True


async def with_address(service: Service, job: WatchJob) -> WatchJob:
    """Return the job with the address of its watch. Raises `Rejected` if there is no such watch."""
    row = await one_row(service.database, PageWatch, name=job.watch)
    if row is None:
        problem = f"there is no watch {job.watch[:100]!r}; see `forager watch list`"
        raise Rejected("The job is not valid.", fields=[FieldError("watch", problem)])
    return job.model_copy(update={"url": row.url})
