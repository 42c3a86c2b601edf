"""The queries about markets: how each stands, what it costs, and how far its verification is behind."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import structlog
from pydantic import Field, ValidationError

from forager.core.database import Database
from forager.core.errors import Conflict, NotFound
from forager.core.invalid import field_errors
from forager.kit.queries import at, decoded, one_row, read_rows
from forager.kit.reports import Report
from forager.pipelines.listings.dispatch import open_scrapes
from forager.pipelines.listings.tables import MarketConfig, MarketScrape

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
_COSTS = """
SELECT sum(CASE WHEN started_at >= :day THEN coalesce(cost_usd, 0) ELSE 0 END) AS day,
       sum(coalesce(cost_usd, 0)) AS month, count(*) AS runs
FROM source_runs WHERE source = 'apify' AND market_id = :market AND started_at >= :month
"""


class MarketReport(Report):
    """A market as it stands."""

    id: str
    display_name: str
    city: str
    state: str
    tier: str = Field(description="hot (every 6 h), standard (12 h) or cool (24 h)")
    is_enabled: bool
    max_listings_per_scrape: int
    scrape_frequency_hours: int = Field(description="From the tier, unless it was overridden.")
    frequency_overridden: bool
    last_scrape_at: datetime | None = Field(description="When the last scrape that did not fail ended.")
    last_scrape_status: str | None = Field(description="completed, partial or failed")
    next_scrape_at: datetime | None = Field(description="When it is due; the next dispatch after that scrapes it.")
    consecutive_failures: int
    circuit_open: bool = Field(description="After 3 failures in a row it is skipped until the daily reset.")
    scraping_job: UUID | None = Field(description="The job that scrapes it now.")
    created_at: datetime


class ScrapeReport(Report):
    """One scrape of a market."""

    id: str
    job_id: UUID | None = Field(description="Its job; null for a scrape of an earlier release.")
    market_id: str
    status: str = Field(description="running, completed, partial, failed, skipped or cancelled")
    reason: str | None
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
    complete: bool = Field(description="Whether what it did not show counts as missed.")


class MarketDetail(MarketReport):
    """A market with its listings, its costs, and how far verification is behind."""

    listings_active: int
    listings_stored: int
    waiting_for_verification: int = Field(description="Listings below confidence 40 whose verification is not queued.")
    oldest_waiting_at: datetime | None
    runs_this_month: int
    cost_today_usd: Decimal
    cost_this_month_usd: Decimal
    scrapes: list[ScrapeReport] = Field(description="The last ten, newest first.")


async def valid_markets(db: Database) -> list[MarketConfig]:
    """All markets, by id. A row that was written by SQL with an invalid value is logged and left out, so that it does
    not hold up the others."""
    markets: list[MarketConfig] = []
    for row in await db.fetch(_MARKETS):
        try:
            markets.append(decoded(MarketConfig, row))
        except ValidationError as error:
            log.error("market.invalid", market=row["id"], problem=_problem(error))
    return markets


async def list_markets(db: Database) -> list[MarketReport]:
    """The reports of all valid markets, by id."""
    jobs = await open_scrapes(db)
    return [market_report(market, jobs) for market in await valid_markets(db)]


async def one_market(db: Database, market_id: str) -> MarketConfig:
    """Return the market with this id. Raises `NotFound` if there is none, `Conflict` if its row is invalid."""
    try:
        market = await one_row(db, MarketConfig, id=market_id)
    except ValidationError as error:
        raise Conflict(f"The row of market {market_id!r} is invalid: {_problem(error)}. Correct it by SQL.") from error
    if market is None:
        raise no_market(market_id)
    return market


def no_market(market_id: str) -> NotFound:
    return NotFound(f"There is no market {market_id!r}. See `forager markets list`.")


async def market_detail(db: Database, market_id: str, now: datetime) -> MarketDetail:
    """One market with everything. Raises `NotFound`."""
    market = await one_market(db, market_id)
    report = market_report(market, await open_scrapes(db))
    counts = await db.fetch(_COUNTS, {"market": market_id})
    (behind,) = await db.fetch(_BEHIND, {"market": market_id, "now": _ms(now)})
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    asked = {"market": market_id, "day": _ms(day), "month": _ms(day.replace(day=1))}
    (costs,) = await db.fetch(_COSTS, asked)
    scrapes = await read_rows(
        db, MarketScrape, "market_id = :market", {"market": market_id}, order=f"started_at DESC LIMIT {MOST_SCRAPES}"
    )
    return MarketDetail(
        **report.model_dump(),
        listings_active=counts[0]["active"] if counts else 0,
        listings_stored=counts[0]["stored"] if counts else 0,
        waiting_for_verification=behind["n"],
        oldest_waiting_at=at(behind["oldest"]),
        runs_this_month=costs["runs"],
        cost_today_usd=Decimal(costs["day"] or 0) / MONEY,
        cost_this_month_usd=Decimal(costs["month"] or 0) / MONEY,
        scrapes=[_scrape_report(row) for row in scrapes],
    )


def market_report(market: MarketConfig, jobs: Mapping[str, UUID]) -> MarketReport:
    named = market.model_dump(exclude={"scrape_frequency_hours", "listings_rate"})
    due = market.due_at or market.created_at
    return MarketReport(
        **named,
        scrape_frequency_hours=market.frequency_hours,
        frequency_overridden=market.frequency_overridden,
        next_scrape_at=due if market.is_enabled else None,
        circuit_open=market.circuit_open,
        scraping_job=jobs.get(market.id),
    )


def _scrape_report(row: MarketScrape) -> ScrapeReport:
    cancelled = row.status == "running" and row.ended_at is not None
    values = row.model_dump(exclude={"run_id", "run_started_at"})
    return ScrapeReport(**{**values, "status": "cancelled" if cancelled else row.status})


def _problem(error: ValidationError) -> str:
    return "; ".join(f"{each.field}: {each.message}" for each in field_errors(error))


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
