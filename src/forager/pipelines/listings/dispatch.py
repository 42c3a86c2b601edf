"""Creating the scrape of a market: by the schedule, by an operator. One scrape of a market runs at a time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from statistics import median
from uuid import UUID

from forager.core.database import Database
from forager.core.errors import Conflict
from forager.kit.queries import loads
from forager.kit.service import Service
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.tables import MarketConfig
from forager.pipelines.listings.tasks import Scrape

SPREAD = 60.0
"""Scrapes of one dispatch start at random moments within so many seconds."""

_OPEN = "SELECT public_id, params FROM jobs WHERE finished_at IS NULL AND pipeline = :pipeline"
_FOUND = """
SELECT found FROM market_scrapes WHERE market_id = :market AND status IN ('completed', 'partial')
ORDER BY started_at DESC LIMIT 10
"""


async def open_scrapes(db: Database) -> dict[str, UUID]:
    """The markets of which a scrape waits or runs, each with its job."""
    rows = await db.fetch(_OPEN, {"pipeline": NAME})
    scrapes = ((loads(row["params"]).get("scrape"), row["public_id"]) for row in rows)
    return {scrape["market_id"]: UUID(str(job)) for scrape, job in scrapes if scrape}


async def dispatch_due(service: Service, markets: Sequence[MarketConfig], now: datetime) -> int:
    """Create a scrape for every market that is enabled, due, not running, and whose circuit is closed.

    Returns how many were created. If another process dispatches or an operator starts a scrape at the same time, one of
    them creates the job.
    """
    running = await open_scrapes(service.database)
    created = 0
    for market in markets:
        if not market.is_enabled or market.circuit_open or market.id in running or not market.is_due(now):
            continue
        delay = Random(f"{market.id}/{now.isoformat()}").uniform(0, SPREAD)  # noqa: S311 - a stagger, not a secret
        try:
            made = await _create(service, market, now, now + timedelta(seconds=delay))
        except Conflict:  # another process or an operator was first: the same key, another moment
            continue
        created += made[1]
    return created


async def scrape_now(service: Service, market: MarketConfig, now: datetime) -> UUID:
    """Create a scrape whatever the schedule says. Raises `Conflict` if one waits or runs, also if another call or a
    dispatch creates one at the same time."""
    running = (await open_scrapes(service.database)).get(market.id)
    if running is not None:
        raise Conflict(f"A scrape of {market.id} is under way: job {running}.")
    try:
        job, created = await _create(service, market, now, None)
    except Conflict:  # a call or a dispatch that was faster: the same key, another moment
        created = False
    if not created:
        raise Conflict(f"A scrape of {market.id} was created at this moment by another call or by the schedule.")
    return job


async def _create(
    service: Service, market: MarketConfig, now: datetime, start_at: datetime | None
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
        since=now,
        start_at=start_at,
    )
    params = {"action": "scrape", "scrape": scrape.model_dump(mode="json")}
    made = await service.submit(NAME, params, key=f"scrape/{market.id}/now", until_end=True)
    return made.job, made.created
