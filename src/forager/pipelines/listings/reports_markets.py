"""The queries about markets: how each stands, what it costs, and how far its verification is behind."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog
from pydantic import Field, ValidationError

from forager.core.database import Database, Row
from forager.core.errors import Conflict, NotFound
from forager.core.invalid import field_errors
from forager.core.names import no_such
from forager.kit.figures import Figure
from forager.kit.queries import at, decoded, read_rows
from forager.kit.reports import Report
from forager.kit.service import Service
from forager.pipelines.listings.dispatch import OpenScrape, open_scrapes
from forager.pipelines.listings.tables import OPEN_CIRCUIT, MarketConfig, MarketScrape

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


class MarketReport(Report):
    """A market as it stands."""

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
    last_scrape_at: datetime | None = Field(description="When the last scrape that did not fail ended.")
    last_scrape_status: str | None = Field(description="completed, partial or failed")
    next_scrape_at: datetime | None = Field(
        description="When the schedule scrapes it next; null if it does not: the market is disabled or invalid, or "
        "scraping is stopped."
    )
    consecutive_failures: int
    circuit_open: bool = Field(description="After 3 failures in a row it is skipped until the daily reset.")
    scraping_job: UUID | None = Field(description="The job that scrapes it now.")
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
    """All markets, by id. A row that was written by SQL with an invalid value is logged and left out, so that it does
    not hold up the others."""
    markets: list[MarketConfig] = []
    for row in await db.fetch(_MARKETS):
        try:
            markets.append(decoded(MarketConfig, row))
        except ValidationError as error:
            log.error("market.invalid", market=row["id"], problem=_problem(error))
    return markets


async def list_markets(db: Database, *, started: bool) -> list[MarketReport]:
    """The reports of all markets, by id; an invalid one has its problem. `started`: whether the schedule scrapes."""
    jobs = await open_scrapes(db)
    reports: list[MarketReport] = []
    for row in await db.fetch(_MARKETS):
        try:
            reports.append(market_report(decoded(MarketConfig, row), jobs, started=started))
        except ValidationError as error:
            reports.append(_invalid_report(row, jobs, _problem(error)))
    return reports


async def one_market(db: Database, market_id: str, corrected: Mapping[str, Any] | None = None) -> MarketConfig:
    """Return the market with this id. Raises `NotFound` if there is none, `Conflict` if its row is invalid.

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
    remedy = f"Correct it with `forager markets set {market_id}`, or by SQL"
    raise Conflict(f"The row of market {market_id!r} is invalid: {problem}. {remedy}.")


async def no_market(db: Database, market_id: str) -> NotFound:
    """Return the error for a market that does not exist, with the names that are near."""
    known = [row["id"] for row in await db.fetch("SELECT id FROM market_configs")]
    return no_such("market", market_id, known, "See `forager markets list`.")


async def market_detail(db: Database, market_id: str, now: datetime, *, started: bool = True) -> MarketDetail:
    """One market with everything. Raises `NotFound`."""
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
