"""Finds the stored pages that can answer a target with `max_age`, when its job is created.

Nothing is requested here. A page that is lost by the time its task runs is fetched after all.
"""

from collections.abc import Sequence
from datetime import datetime

from forager.core.database import Database, Row
from forager.pipelines.scrape.job import ScrapeJob, Target
from forager.sdk.queries import loads
from forager.sdk.service import Service

MOST_OF_ONE = 10
"""Maximum number of an address's newest results that are examined."""
_SQL = """
SELECT target_url, fetched_at, rendered, stored_pages FROM scrape_results
WHERE target_url = :url AND fetched_at >= :since AND stored_pages IS NOT NULL ORDER BY fetched_at DESC LIMIT :most
"""


async def with_stored(service: Service, job: ScrapeJob) -> ScrapeJob:
    """Return the job; each target that a stored page can answer names that page."""
    now = await service.ledger.now()
    found = {
        number: pages
        for number, target in enumerate(job.targets)
        if target.may_be_stored and target.max_age and (pages := await _pages_of(service.database, target, now))
    }
    if not found:
        return job
    targets = (
        target.stored_as(found[number]) if number in found else target for number, target in enumerate(job.targets)
    )
    return job.model_copy(update={"targets": tuple(targets)})


async def _pages_of(db: Database, target: Target, now: datetime) -> dict[str, str] | None:
    since = round(now.timestamp() * 1000) - (target.max_age or 0) * 1000
    rows = await db.fetch(_SQL, {"url": target.target_url, "since": since, "most": MOST_OF_ONE})
    return _newest(rows, target)


def _newest(rows: Sequence[Row], target: Target) -> dict[str, str] | None:
    """Return the pages of the newest result that were fetched in the way that the target names."""
    for row in rows:
        rendered = bool(row["rendered"])
        if target.render == "auto" or rendered == (target.render == "browser"):
            pages: dict[str, str] = loads(row["stored_pages"])
            if target.target_url in pages:
                return pages
    return None
