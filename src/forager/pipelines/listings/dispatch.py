"""Creating the scrape of a market: by the schedule, by an operator. One scrape of a market runs at a time."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from statistics import median
from uuid import UUID

from forager.core.database import Database
from forager.core.errors import Conflict, NotFound
from forager.kit.queries import loads
from forager.kit.service import Service
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.tables import MarketConfig
from forager.pipelines.listings.tasks import Scrape

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
    """When the schedule starts it; None for a scrape by hand."""


async def open_scrapes(db: Database) -> dict[str, OpenScrape]:
    """The markets of which a scrape waits or runs, each with its job."""
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
    """Create a scrape whatever the schedule says. Raises `Conflict` if one waits or runs, also if another call or a
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
    """Cancel the scrapes that the schedule created and that have not begun. Returns how many."""
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
    scrape = Scrape(
        market_id=market.id,
        city=market.city,
        state=market.state,
        tier=market.tier,
        max_listings=market.max_listings_per_scrape,
        usual_found=round(median(counts)) if counts else None,
        since=since,
        start_at=start_at,
    )
    params = {"action": "scrape", "scrape": scrape.model_dump(mode="json")}
    made = await service.submit(NAME, params, key=f"scrape/{market.id}/now", until_end=True)
    return made.job, made.created
