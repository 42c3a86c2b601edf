"""The app steps of upkeep: the three schedules, and the new ageing of a market whose tier has changed.

Each run is a job; the facts of its task are counts of what was done. No schedule names a city.
"""

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from forager.core.errors import Conflict, NotFound
from forager.core.http import Fetch
from forager.core.outcome import Done, Drop, Gone, Outcome
from forager.core.record import CLEAR
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.listings.pipeline import NO_TOKEN
from forager.pipelines.listings.records import (
    OPEN_CIRCUIT,
    Listing,
    ListingSource,
    ListingSplit,
    MarketConfig,
    MarketScrape,
)
from forager.pipelines.listings.reports.markets import dispatch_due, open_scrapes, valid_markets
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tasks import CancelScrapes, Retier, SplitListing, Upkeep
from forager.sdk.queries import at, one_row, read_rows
from forager.sdk.service import Service

log = structlog.get_logger("forager.listings")

PAGE = 500
"""Listings that one settlement changes."""
STALE = timedelta(minutes=30)
"""A scrape whose Apify run began longer ago than this, and has not ended, has failed."""
REARMED = OPEN_CIRCUIT - 1
"""After the daily reset one more failure opens the circuit again."""

ZERO = """
SELECT listing_key, market_id, zero_at FROM listings WHERE gone_at IS NULL AND zero_at <= :now
ORDER BY zero_at LIMIT :most
"""
_DOUBTFUL = "SELECT count(*) AS n FROM (SELECT 1 AS one FROM listings WHERE verify_at <= :now LIMIT 10000) d"
_OF_MARKET = """
SELECT id, listing_key, decay_rate FROM listings WHERE market_id = :market AND id > :after ORDER BY id LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class UpkeepSteps:
    service: Service

    async def run(self, task: Upkeep, _: Fetch) -> Outcome:
        now = await self.service.ledger.now()
        if task.action == "dispatch_scrapes":
            return await self._dispatch(now)
        if task.action == "decay_and_verify":
            return await self._age(task, now)
        return await self._clean_up(task, now)

    async def retier(self, task: Retier, _: Fetch) -> Outcome:
        """Give a page of a market's listings its new rate; the ledger derives their crossing moments from it.

        Stops if the market's tier has changed again: another task applies that one.
        """
        market = await one_row(self.service.database, MarketConfig, id=task.market_id)
        if market is None or market.decay_rate != task.rate:
            return Done(cost=0, facts={"superseded": 1})
        values = {"market": task.market_id, "after": task.after, "most": PAGE}
        rows = await self.service.database.fetch(_OF_MARKET, values)
        updates = [
            Listing(listing_key=row["listing_key"], market_id=task.market_id, decay_rate=task.rate)
            for row in rows
            if row["decay_rate"] != task.rate
        ]
        if len(rows) == PAGE:
            following = Plan(task.model_copy(update={"after": rows[-1]["id"]}))
            return Done(updates=updates, tasks=[following], cost=0, facts={"listings": len(updates)})
        applied = Effect(MarketConfig, {"id": task.market_id}, set={"listings_rate": task.rate})
        return Done(updates=updates, effects=[applied], cost=0, facts={"listings": len(updates)})

    async def split(self, task: SplitListing, _: Fetch) -> Outcome:
        """Take a source out of a listing. Its next sighting is a listing of its own, never merged here again."""
        sql = "SELECT market_id, source, source_id, url FROM listing_sources WHERE source_key = :key"
        rows = await self.service.database.fetch(sql, {"key": task.source_key})
        own = [ListingSource(source_key=task.source_key, listing_key=task.source_key, **row) for row in rows]
        key = {"source_key": task.source_key, "listing_key": task.listing_key}
        return Done(updates=own, effects=[Effect(ListingSplit, key, insert=True)], cost=0)

    async def cancel(self, task: CancelScrapes, _: Fetch) -> Outcome:
        """Cancel jobs; one that has ended meanwhile is left as it is."""
        for job in task.jobs:
            with contextlib.suppress(Conflict, NotFound):
                await self.service.ledger.cancel(job)
        return Done(cost=0, facts={"cancelled": len(task.jobs)})

    async def _dispatch(self, now: datetime) -> Outcome:
        if self.service.settings.of(ListingsSettings).apify_token is None:
            return Drop(NO_TOKEN, "Nothing is scraped without a token of Apify: set FORAGER_APIFY_TOKEN.")
        markets = await valid_markets(self.service.database)
        created = await dispatch_due(self.service, markets, now)
        enabled = sum(market.is_enabled for market in markets)
        message = f"Dispatched {created} scrapes for {enabled} markets"
        log.info("markets_dispatched", message=message, created=created, markets=enabled)
        return Done(cost=0, facts={"dispatched": created, "markets": enabled})

    async def _age(self, task: Upkeep, now: datetime) -> Done:
        """Deactivate what reached 0, and give the listings of markets whose tier was changed by SQL the new rate."""
        done = await self._deactivate(task, now)
        if task.part > 1:
            return done
        markets = await valid_markets(self.service.database)
        changed = [each for each in markets if each.listings_rate != each.decay_rate]
        retiers = [Plan(Retier(market_id=each.id, rate=each.decay_rate)) for each in changed]
        return replace(done, tasks=[*done.tasks, *retiers], facts={**done.facts, "new_tiers": len(retiers)})

    async def _deactivate(self, task: Upkeep, now: datetime) -> Done:
        """Make inactive what reached 0 without a verification. What crossed 40 is queued by its recheck meanwhile."""
        values = {"now": round(now.timestamp() * 1000)}
        rows = await self.service.database.fetch(ZERO, {**values, "most": PAGE})
        (doubtful,) = await self.service.database.fetch(_DOUBTFUL, values)
        gone = [
            Gone(
                Listing(listing_key=row["listing_key"], market_id=row["market_id"], verify_at=CLEAR),
                "unconfirmed",
                {"confidence": 0, "since": str(at(row["zero_at"]))},
            )
            for row in rows
        ]
        facts = {"deactivated": len(gone), "waiting_for_verification": int(doubtful["n"])}
        return Done(gone=gone, tasks=_more(task) if len(rows) == PAGE else [], cost=0, facts=facts)

    async def _clean_up(self, task: Upkeep, now: datetime) -> Outcome:
        """Deactivate, fail stale scrapes, re-arm circuits, and refresh the statistics of the store."""
        deactivated = await self._deactivate(task, now)
        if task.part > 1:
            return deactivated
        stale = await self._stale(now)
        jobs = await open_scrapes(self.service.database)
        cancelled = tuple(jobs[row.market_id].job for row in stale if row.market_id in jobs)
        broken = [each for each in await valid_markets(self.service.database) if each.circuit_open]
        rearmed = [Effect(MarketConfig, {"id": each.id}, set={"consecutive_failures": REARMED}) for each in broken]
        await self._analyse()
        facts = {**deactivated.facts, "stale": len(stale), "circuits_rearmed": len(rearmed)}
        return Done(
            gone=deactivated.gone,
            tasks=[*deactivated.tasks, *([Plan(CancelScrapes(jobs=cancelled))] if cancelled else [])],
            effects=[*rearmed, *(effect for row in stale for effect in _failed(row, now))],
            cost=0,
            facts=facts,
        )

    async def _analyse(self) -> None:
        """Refresh the planner's statistics. SQLite samples each index, so that its one writer is not held up."""
        if self.service.database.dialect == "sqlite":
            await self.service.database.write("PRAGMA analysis_limit = 1000")
        await self.service.database.write("ANALYZE")

    async def _stale(self, now: datetime) -> list[MarketScrape]:
        before = round((now - STALE).timestamp() * 1000)
        condition = "status = 'running' AND ended_at IS NULL AND run_started_at < :before"
        return await read_rows(self.service.database, MarketScrape, condition, {"before": before})


def _failed(row: MarketScrape, now: datetime) -> list[Effect]:
    """Count a stale scrape: before its job is cancelled, so that a crash in between counts it once."""
    minutes = STALE // timedelta(minutes=1)
    message = f"Its Apify run {row.run_id} had not ended after {minutes} minutes; maintenance cancelled the scrape."
    failed = {"status": "failed", "reason": "stale", "message": message, "ended_at": now}
    return [
        Effect(
            MarketConfig,
            {"id": row.market_id},
            add={"consecutive_failures": 1},
            set={"last_scrape_status": "failed"},
        ),
        Effect(MarketScrape, {"id": row.id}, set=failed),
    ]


def _more(task: Upkeep) -> list[Plan]:
    return [Plan(task.model_copy(update={"part": task.part + 1}))]
