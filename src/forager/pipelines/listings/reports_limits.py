"""What a data source may be asked for, and what has been used of it in this hour, this day and this month (UTC)."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from pydantic import Field

from forager.core.database import Database
from forager.core.names import no_such
from forager.kit.queries import one_row, read_rows
from forager.kit.reports import Report
from forager.pipelines.listings.tables import DataSource

MONEY = 10_000
"""Money is stored as an integer, so many to a dollar."""
_USED = """
SELECT sum(CASE WHEN started_at >= :hour THEN 1 ELSE 0 END) AS hour,
       sum(CASE WHEN started_at >= :day THEN 1 ELSE 0 END) AS day,
       sum(coalesce(cost_usd, max_usd)) AS month
FROM source_runs WHERE source = :source AND started_at >= :month
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What was used of a data source. A run that has not ended counts with all that it may cost."""

    hour: int
    day: int
    month_usd: Decimal


class DataSourceReport(Report):
    """An upstream, its limits, and what was used of them. Null means no limit."""

    id: str
    name: str
    is_enabled: bool = Field(description="False: no run is started, and every scrape is skipped.")
    max_requests_per_hour: int | None = Field(description="Runs that may be started in an hour.")
    max_requests_per_day: int | None = Field(description="Runs that may be started in a day.")
    max_usd_per_month: Decimal | None
    requests_this_hour: int
    requests_today: int
    usd_this_month: Decimal = Field(description="A run that has not ended counts with all that it may cost.")
    created_at: datetime


async def used_of(db: Database, source: str, now: datetime) -> Used:
    """Count from `source_runs`, where each run is written exactly once."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    starts = {"hour": hour, "day": day, "month": day.replace(day=1)}
    values = {name: round(moment.timestamp() * 1000) for name, moment in starts.items()}
    (used,) = await db.fetch(_USED, {"source": source, **values})
    return Used(int(used["hour"] or 0), int(used["day"] or 0), Decimal(used["month"] or 0) / MONEY)


async def list_sources(db: Database, now: datetime) -> list[DataSourceReport]:
    """All data sources, by id."""
    return [await _report(db, row, now) for row in await read_rows(db, DataSource, "1 = 1", {})]


async def one_source(db: Database, source: str, now: datetime) -> DataSourceReport:
    """Raises `NotFound` if there is no data source with this id."""
    row = await one_row(db, DataSource, id=source)
    if row is None:
        known = [each.id for each in await read_rows(db, DataSource, "1 = 1", {})]
        raise no_such("data source", source, known, "See `forager markets limits`.")
    return await _report(db, row, now)


async def _report(db: Database, row: DataSource, now: datetime) -> DataSourceReport:
    used = await used_of(db, row.id, now)
    return DataSourceReport(
        **row.model_dump(exclude={"scheduled"}),
        requests_this_hour=used.hour,
        requests_today=used.day,
        usd_this_month=used.month_usd,
    )
