"""The queries about markets: the state of each, what it costs, and how far its verification is behind."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from statistics import median
from typing import Any
from uuid import UUID

import structlog
from pydantic import Field, ValidationError

from forager.core.database import Database, Row
from forager.core.errors import Conflict, NotFound
from forager.core.ids import no_such, unknown_filter
from forager.core.invalid import field_errors
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.records import OPEN_CIRCUIT, DataSource, MarketConfig, MarketScrape
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tasks import ScrapedMarket
from forager.sdk.feature import Figure
from forager.sdk.overview import Expenses
from forager.sdk.queries import at, decoded, loads, one_row, read_rows
from forager.sdk.reports import Report
from forager.sdk.service import Service

# Creating the scrape of a market: by the schedule, by an operator. One scrape of a market runs at a time.


SPREAD = timedelta(seconds=60)
"""Scrapes of one dispatch start at different moments within this time."""
PERIOD = timedelta(hours=1)
"""Time between two dispatches. One takes what falls due until the next, so that no scrape is an hour late."""

_OPEN = "SELECT public_id, params, started_at FROM jobs WHERE finished_at IS NULL AND pipeline = :pipeline"
_FOUND = """
SELECT found FROM market_scrapes WHERE market_id = :market AND status IN ('completed', 'partial')
ORDER BY started_at DESC LIMIT 10
"""


@dataclass(frozen=True, slots=True)
class OpenScrape:
    """A scrape whose job has not ended."""

    job: UUID
    has_begun: bool
    """False while it waits for its moment: nothing was requested from Apify yet."""
    start_at: datetime | None
    """Time at which the schedule starts it; None for a scrape by hand."""


async def open_scrapes(db: Database) -> dict[str, OpenScrape]:
    """Return the markets of which a scrape waits or runs, each with its job."""
    found: dict[str, OpenScrape] = {}
    for row in await db.fetch(_OPEN, {"pipeline": NAME}):
        if scrape := loads(row["params"]).get("scrape"):
            start = scrape.get("start_at")
            found[scrape["market_id"]] = OpenScrape(
                UUID(str(row["public_id"])),
                row["started_at"] is not None,
                None if start is None else datetime.fromisoformat(start),
            )
    return found


async def dispatch_due(service: Service, markets: Sequence[MarketConfig], now: datetime) -> int:
    """Create a scrape for every market that is enabled, not running, whose circuit is closed, and that falls due before
    the next dispatch. Each starts when it is due, so that a tier means its hours from start to start.

    Returns how many were created. If another process dispatches or an operator starts a scrape at the same time, one of
    them creates the job.
    """
    running = await open_scrapes(service.database)
    created = 0
    for market in markets:
        if not market.is_enabled or market.circuit_open or market.id in running:
            continue
        if not market.is_due(now + PERIOD - SPREAD):  # what falls due in the last minute waits for the next dispatch
            continue
        since = _start_of(market, now)
        try:
            made = await _create(service, market, since, since + _delay(market))
        except Conflict:  # another process or an operator was first: the same key, another moment
            continue
        created += made[1]
    return created


def _start_of(market: MarketConfig, now: datetime) -> datetime:
    """Return the moment that the market's next period begins with: when it is due, unless that was long ago."""
    due = market.due_at
    return now if due is None or due < now - SPREAD else due


def _delay(market: MarketConfig) -> timedelta:
    """Return the random delay that keeps the scrapes of one dispatch apart. It is the same each time, so that the time
    between two starts of one market is exact."""
    return Random(market.id).random() * SPREAD  # noqa: S311 - a stagger, not a secret


async def scrape_now(service: Service, market: MarketConfig, now: datetime) -> UUID:
    """Create a scrape independently of the schedule. Raises `Conflict` if one waits or runs, also if another call or a
    dispatch creates one at the same time."""
    running = (await open_scrapes(service.database)).get(market.id)
    if running is not None and not running.has_begun and running.start_at is not None and running.start_at > now:
        planned = f"{running.start_at:%H:%M:%S} UTC"
        raise Conflict(f"A scrape of {market.id} starts at {planned}, by the schedule: job {running.job}.")
    if running is not None:
        raise Conflict(f"A scrape of {market.id} is under way: job {running.job}.")
    try:
        job, created = await _create(service, market, now, None)
    except Conflict:  # a call or a dispatch that was faster: the same key, another moment
        created = False
    if not created:
        raise Conflict(f"A scrape of {market.id} was created at this moment by another call or by the schedule.")
    return job


async def cancel_waiting(service: Service) -> int:
    """Cancel the scheduled scrapes that have not begun. Returns their number."""
    cancelled = 0
    for scrape in (await open_scrapes(service.database)).values():
        if scrape.start_at is not None and not scrape.has_begun:
            with contextlib.suppress(Conflict, NotFound):  # it has ended meanwhile
                await service.ledger.cancel(scrape.job)
                cancelled += 1
    return cancelled


async def _create(
    service: Service, market: MarketConfig, since: datetime, start_at: datetime | None
) -> tuple[UUID, bool]:
    """Create the job, with a key that names the market until the job has ended: of several calls at once, whether by
    schedule or by hand, one creates it. Raises `Conflict` for the others."""
    counts = [row["found"] for row in await service.database.fetch(_FOUND, {"market": market.id})]
    scrape = ScrapedMarket(
        market_id=market.id,
        city=market.city,
        state=market.state,
        tier=market.tier,
        max_listings=market.max_listings_per_scrape,
        usual_found=round(median(counts)) if counts else None,
        since=since,
        start_at=start_at,
        splits=service.settings.of(ListingsSettings).listings_split_runs,
    )
    params = {"action": "scrape", "scrape": scrape.model_dump(mode="json")}
    made = await service.submit(NAME, params, key=f"scrape/{market.id}/now", until_end=True)
    return made.job, made.created


log = structlog.get_logger("forager.listings")

MOST_SCRAPES = 10
MONEY = 10_000

_MARKETS = "SELECT * FROM market_configs ORDER BY id"
_COUNTS = """
SELECT market_id, count(*) AS stored, sum(CASE WHEN gone_at IS NULL THEN 1 ELSE 0 END) AS active
FROM listings WHERE market_id = :market GROUP BY market_id
"""
_BEHIND = """
SELECT count(*) AS n, min(verify_at) AS oldest FROM listings WHERE market_id = :market AND verify_at <= :now
"""
_FRESH = """
SELECT count(*) AS active, sum(CASE WHEN verify_at <= :now THEN 1 ELSE 0 END) AS waiting, min(verify_at) AS oldest
FROM listings WHERE gone_at IS NULL
"""
_COSTS = """
SELECT sum(CASE WHEN started_at >= :day THEN coalesce(cost_usd, 0) ELSE 0 END) AS day,
       sum(coalesce(cost_usd, 0)) AS month, count(*) AS runs
FROM source_runs WHERE source = 'apify' AND market_id = :market AND started_at >= :month
"""


_COSTS_BY_MARKET = """
SELECT market_id, sum(coalesce(cost_usd, 0)) AS month FROM source_runs
WHERE source = 'apify' AND started_at >= :month GROUP BY market_id
"""


class MarketReport(Report):
    """A market in its present state."""

    id: str
    display_name: str
    city: str
    state: str
    tier: str = Field(description="hot (every 6 h), standard (12 h) or cool (24 h)")
    is_enabled: bool
    max_listings_per_scrape: int
    scrape_frequency_hours: int | None = Field(
        description="From the tier, unless it was overridden; null if the row is invalid."
    )
    frequency_overridden: bool
    last_scrape_at: datetime | None = Field(description="End of the last scrape that did not fail.")
    last_scrape_status: str | None = Field(description="completed, partial or failed")
    next_scrape_at: datetime | None = Field(
        description="Time of the next scheduled scrape; null if the market is disabled or invalid, or "
        "scraping is stopped."
    )
    consecutive_failures: int
    circuit_open: bool = Field(description="After 3 failures in a row it is skipped until the daily reset.")
    scraping_job: UUID | None = Field(description="The job that scrapes it now.")
    cost_this_month_usd: Decimal = Field(default=Decimal(0), description="US dollars in this month (UTC).")
    created_at: datetime | None
    problem: str | None = Field(default=None, description="Why its row is invalid, so that it is not scraped.")


class ScrapeReport(Report):
    """One scrape of a market."""

    id: str
    job_id: UUID | None = Field(description="Its job; null for a scrape of an earlier release.")
    market_id: str
    status: str = Field(description="running, completed, partial, failed, skipped or cancelled")
    reason: str | None = Field(description="Why it failed or was skipped, in one word …")
    message: str | None = Field(description="… and in a sentence.")
    started_at: datetime
    ended_at: datetime | None
    found: int
    normalised: int
    errors: int
    new: int
    updated: int
    merged: int
    skipped: int
    api_ms: int
    cost_usd: Decimal
    complete: bool = Field(description="True if a listing that it did not show counts as missed.")


class MarketDetail(MarketReport):
    """A market with its listings, its costs, and how far verification is behind."""

    listings_active: int
    listings_stored: int
    waiting_for_verification: int = Field(description="Listings below confidence 40 whose verification is not queued.")
    oldest_waiting_at: datetime | None
    runs_this_month: int
    cost_today_usd: Decimal
    scrapes: list[ScrapeReport] = Field(description="The last ten, newest first.")


async def figures(service: Service) -> list[Figure]:
    """Return what `/metrics` shows about markets and the freshness of their listings.

    A market that was never scraped is not late: it may wait for its first start by an operator.
    """
    now = await service.ledger.now()
    running = await open_scrapes(service.database)
    markets = [each for each in await valid_markets(service.database) if each.is_enabled]
    late = [(now - each.due_at).total_seconds() for each in markets if each.due_at and each.id not in running]
    (fresh,) = await service.database.fetch(_FRESH, {"now": _ms(now)})
    behind = max(0.0, now.timestamp() - fresh["oldest"] / 1000) if fresh["oldest"] is not None else 0.0
    return [
        Figure("forager_markets_enabled", "Markets that are scraped.", len(markets)),
        Figure(
            "forager_markets_stopped",
            "Enabled markets that are skipped until the daily reset, after 3 failures in a row.",
            sum(each.circuit_open for each in markets),
        ),
        Figure("forager_market_late_seconds", "Age of the most overdue scrape of a market.", max([0.0, *late])),
        Figure("forager_listings_active", "Listings that are on the market.", fresh["active"]),
        Figure("forager_listings_stale", "Active listings that are due for verification.", fresh["waiting"] or 0),
        Figure("forager_listings_stale_seconds", "Age of the oldest verification that is due.", behind),
    ]


async def valid_markets(db: Database) -> list[MarketConfig]:
    """Return all markets, by id. A row that was written by SQL with an invalid value is logged and left out, so that it
    does not hold up the others."""
    markets: list[MarketConfig] = []
    for row in await db.fetch(_MARKETS):
        try:
            markets.append(decoded(MarketConfig, row))
        except ValidationError as error:
            log.error("market_invalid", market=row["id"], problem=_problem(error))
    return markets


async def list_markets(db: Database, now: datetime, *, started: bool) -> list[MarketReport]:
    """Return the reports of all markets, by id; an invalid one has its problem. `started`: whether the schedule
    scrapes."""
    jobs = await open_scrapes(db)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    spent = {row["market_id"]: row["month"] for row in await db.fetch(_COSTS_BY_MARKET, {"month": _ms(month)})}
    reports: list[MarketReport] = []
    for row in await db.fetch(_MARKETS):
        try:
            reports.append(market_report(decoded(MarketConfig, row), jobs, started=started))
        except ValidationError as error:
            reports.append(_invalid_report(row, jobs, _problem(error)))
    return [
        each.model_copy(update={"cost_this_month_usd": Decimal(spent.get(each.id) or 0) / MONEY}) for each in reports
    ]


async def one_market(db: Database, market_id: str, corrected: Mapping[str, Any] | None = None) -> MarketConfig:
    """Return the market with this id. Raises `NotFound` if it does not exist, `Conflict` if its row is invalid.

    `corrected` are values that are about to be written: a row that is valid with them is returned with them.
    """
    rows = await db.fetch("SELECT * FROM market_configs WHERE id = :id", {"id": market_id})
    if not rows:
        raise await no_market(db, market_id)
    known = {name: value for name, value in (corrected or {}).items() if name in rows[0]}
    for row in (rows[0], {**rows[0], **known}):
        try:
            return decoded(MarketConfig, row)
        except ValidationError as error:
            problem = _problem(error)
    remedy = f"Correct it with `{correction(market_id, problem)}`, or by SQL"
    raise Conflict(f"The row of market {market_id!r} is invalid: {problem}. {remedy}.")


def correction(market_id: str, problem: str) -> str:
    """Return the command, or the route of the API, that corrects a market's row. `problem` begins with the name of its
    first wrong field."""
    options = {
        "tier": "--tier standard",
        "scrape_frequency_hours": "--hours 12",
        "max_listings_per_scrape": "--max-listings 1000",
    }
    option = options.get(problem.partition(":")[0])
    return f"forager markets set {market_id} {option}" if option else f"PUT /api/v1/admin/markets/{market_id}"


async def no_market(db: Database, market_id: str) -> NotFound:
    """Return the error for a market that does not exist, with the names that are near."""
    known = [row["id"] for row in await db.fetch("SELECT id FROM market_configs")]
    return no_such("market", market_id, known, "See `forager markets list`.")


async def require_market(db: Database, market_id: str | None) -> None:
    """Raise `Rejected`, with the names that are near, for a market that has neither a row nor listings. None is no
    filter."""
    if market_id is None:
        return
    for table, column in (("market_configs", "id"), ("listings", "market_id")):
        if await db.fetch(f"SELECT 1 AS found FROM {table} WHERE {column} = :id LIMIT 1", {"id": market_id}):
            return
    known = [row["id"] for row in await db.fetch("SELECT id FROM market_configs")]
    raise unknown_filter("market", "market", market_id, known, "See `forager markets list`.")


async def market_detail(db: Database, market_id: str, now: datetime, *, started: bool = True) -> MarketDetail:
    """Return one market with everything. Raises `NotFound`."""
    market = await one_market(db, market_id)
    report = market_report(market, await open_scrapes(db), started=started)
    counts = await db.fetch(_COUNTS, {"market": market_id})
    (behind,) = await db.fetch(_BEHIND, {"market": market_id, "now": _ms(now)})
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    asked = {"market": market_id, "day": _ms(day), "month": _ms(day.replace(day=1))}
    (costs,) = await db.fetch(_COSTS, asked)
    scrapes = await read_rows(
        db, MarketScrape, "market_id = :market", {"market": market_id}, order=f"started_at DESC LIMIT {MOST_SCRAPES}"
    )
    return MarketDetail(
        **{
            **report.model_dump(),
            "cost_this_month_usd": Decimal(costs["month"] or 0) / MONEY,
        },
        listings_active=counts[0]["active"] if counts else 0,
        listings_stored=counts[0]["stored"] if counts else 0,
        waiting_for_verification=behind["n"],
        oldest_waiting_at=at(behind["oldest"]),
        runs_this_month=costs["runs"],
        cost_today_usd=Decimal(costs["day"] or 0) / MONEY,
        scrapes=[_scrape_report(row) for row in scrapes],
    )


def market_report(market: MarketConfig, jobs: Mapping[str, OpenScrape], *, started: bool) -> MarketReport:
    named = market.model_dump(exclude={"scrape_frequency_hours", "listings_rate", "last_started_at"})
    due = market.due_at or market.created_at
    running = jobs.get(market.id)
    return MarketReport(
        **named,
        scrape_frequency_hours=market.frequency_hours,
        frequency_overridden=market.frequency_overridden,
        next_scrape_at=due if market.is_enabled and started else None,
        circuit_open=market.circuit_open,
        scraping_job=None if running is None else running.job,
    )


def _invalid_report(row: Row, jobs: Mapping[str, OpenScrape], problem: str) -> MarketReport:
    names = ("id", "display_name", "city", "state", "tier", "last_scrape_status")
    running = jobs.get(row["id"])
    return MarketReport(
        **{name: row[name] for name in names},
        is_enabled=bool(row["is_enabled"]),
        max_listings_per_scrape=row["max_listings_per_scrape"],
        scrape_frequency_hours=row["scrape_frequency_hours"],
        frequency_overridden=row["scrape_frequency_hours"] is not None,
        last_scrape_at=at(row["last_scrape_at"]),
        next_scrape_at=None,
        consecutive_failures=row["consecutive_failures"],
        circuit_open=row["consecutive_failures"] >= OPEN_CIRCUIT,
        scraping_job=None if running is None else running.job,
        created_at=at(row["created_at"]),
        problem=problem,
    )


def _scrape_report(row: MarketScrape) -> ScrapeReport:
    cancelled = row.status == "running" and row.ended_at is not None
    values = row.model_dump(exclude={"run_id", "run_started_at"})
    return ScrapeReport(**{**values, "status": "cancelled" if cancelled else row.status})


def _problem(error: ValidationError) -> str:
    return "; ".join(f"{each.field}: {each.message}" for each in field_errors(error))


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


# The limits of a data source, and their use in this hour, this day and this month (UTC).


_USED = """
SELECT sum(CASE WHEN started_at >= :hour THEN 1 ELSE 0 END) AS hour,
       sum(CASE WHEN started_at >= :day THEN 1 ELSE 0 END) AS day,
       sum(coalesce(cost_usd, max_usd)) AS month
FROM source_runs WHERE source = :source AND started_at >= :month
"""


@dataclass(frozen=True, slots=True)
class Used:
    """Use of a data source. A run that has not ended counts with its maximum charge."""

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
    usd_this_month: Decimal = Field(description="A run that has not ended counts with its maximum charge.")
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
    """Return all data sources, by id."""
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


async def expenses(service: Service) -> Expenses | None:
    """Return what the runs of this day and this month cost. One that has not ended counts with its maximum charge."""
    now = await service.ledger.now()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    rows = await service.database.fetch(
        "SELECT sum(CASE WHEN started_at >= :day THEN coalesce(cost_usd, max_usd) ELSE 0 END) AS day,"
        " sum(coalesce(cost_usd, max_usd)) AS month FROM source_runs WHERE started_at >= :month",
        {"day": _ms(day), "month": _ms(day.replace(day=1))},
    )
    limits = [each.max_usd_per_month for each in await list_sources(service.database, now)]
    spent = [Decimal(rows[0][name] or 0) / MONEY for name in ("day", "month")]
    known = [limit for limit in limits if limit is not None]
    return Expenses(spent[0], spent[1], cap_month=sum(known, Decimal(0)) if known else None)
