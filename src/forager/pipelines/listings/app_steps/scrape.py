"""The app steps of a scrape: start a run within the limits, store its dataset, judge the scrape."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any
from uuid import UUID

from forager.core.database import Database
from forager.core.http import Fetch
from forager.core.outcome import Done, Drop, Outcome
from forager.core.states import Reason
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.listings.apify import ITEMS_PER_PAGE, Apify, ApifyRun, facts_of
from forager.pipelines.listings.matching import Resolved, Thresholds, resolve
from forager.pipelines.listings.parse import ListingFound, read_rows
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.records import (
    SOURCE,
    DataSource,
    Listing,
    ListingMerge,
    MarketConfig,
    MarketScrape,
    SourceRun,
)
from forager.pipelines.listings.reports.listings import StoredListings
from forager.pipelines.listings.reports.markets import used_of
from forager.pipelines.listings.steps import cost_effects, units
from forager.pipelines.listings.tasks import (
    HIGHEST_RENT,
    FinishScrape,
    PollRun,
    ReadItems,
    RentBand,
    ScrapeCity,
    ScrapedMarket,
)
from forager.sdk.queries import one_row

CLOCKS_DIFFER = timedelta(minutes=5)
"""Maximum delay of Apify's clock."""
MOST_MISSED = 1_000

_KNOWN_RUNS = "SELECT id FROM source_runs WHERE source = :source AND started_at >= :since"
_JOB = """
SELECT j.public_id FROM jobs j JOIN tasks_now t ON t.job_id = j.id AND t.kind = :kind AND t.key = :key
WHERE j.finished_at IS NULL AND j.pipeline = :pipeline AND t.state = 3
"""
_SEEN = """
SELECT sum(CASE WHEN first_seen_at >= :since THEN 1 ELSE 0 END) AS new
FROM listings WHERE market_id = :market AND last_seen_at >= :since
"""
_RENTS = """
SELECT rent_min AS rent FROM listings
WHERE market_id = :market AND last_seen_at >= :since AND rent_min BETWEEN :low AND :high
"""
_COMPLETE_BEFORE = """
SELECT max(started_at) AS at FROM market_scrapes WHERE market_id = :market AND complete AND started_at < :since
"""
_MISSED = """
SELECT listing_key FROM listings
WHERE market_id = :market AND last_seen_at < :before AND gone_at IS NULL AND verify_at > :now
ORDER BY last_seen_at LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class ScrapeSteps:
    database: Database
    apify: Apify
    now: Callable[[], Awaitable[datetime]]
    """The store's clock, by which limits are counted."""

    async def start(self, task: ScrapeCity, fetch: Fetch) -> Outcome:
        """Start the run, unless a limit of the data source is reached or the run of a lost answer is found."""
        scrape = task.scrape
        run, facts = await self._lost_start(task, fetch), {}
        if run is None:
            if (refused := await self._refused(await self.now())) is not None:
                return Drop(Reason.LIMIT, refused)
            run, response = await self.apify.start(fetch, scrape, task.timeout)
            facts = facts_of(response)
        about = {
            "scrape": scrape,
            "number": task.number,
            "run_id": run.id,
            "dataset_id": run.dataset_id,
            "started_at": run.started_at,
            "timeout": task.timeout,
        }
        return Done(
            tasks=[Plan(PollRun(**about), due=run.started_at + self.apify.first_poll)],
            cost=0,
            effects=self._started(scrape, await self._job_of(task), run, facts.get("api_ms", 0)),
            facts=facts,
        )

    async def finish(self, task: FinishScrape, fetch: Fetch) -> Outcome:
        """Read the final cost and judge the scrape; bring forward the verification of what two in a row missed.

        A run that has read as much as it may was cut off: the scrape continues with two parts of its rents, if it may,
        and is judged after the last part.
        """
        run, response = await self.apify.run(fetch, task.run_id)
        scrape, now = task.scrape, response.at
        cut_off = task.found is not None and task.found >= scrape.max_listings
        further = scrape.split(await self._middle(scrape)) if cut_off and scrape.splits else None
        if (onward := further or scrape.next_part(cut_off=cut_off)) is not None:
            return Done(
                tasks=[Plan(ScrapeCity(scrape=onward))],
                cost=units(run.cost_usd),
                effects=cost_effects(task, run),
                facts=facts_of(response, found=task.found or 0),
            )
        row = await one_row(self.database, MarketScrape, id=scrape.id)
        count, normalised, errors, merged = (row.found, row.normalised, row.errors, row.merged) if row else (0, 0, 0, 0)
        new = await self._new(scrape)
        usual = scrape.usual_found or 0
        whole = normalised > 0 and errors == 0 and 2 * count >= usual
        # Parts overlap where a property has flats in both, so their sum does not count.
        alone = count if scrape.band is None else (task.found or 0)
        complete = whole and not scrape.cut_off and alone < scrape.max_listings
        judged: dict[str, Any] = {
            "status": "completed" if whole else "partial",
            "ended_at": now,
            "complete": complete,
            "new": new,
            "updated": max(0, normalised - new - merged),
        }
        market: dict[str, Any] = {
            "last_scrape_at": now,
            "last_started_at": scrape.since,
            "last_scrape_status": judged["status"],
            "consecutive_failures": 0,
        }
        if await self._tier_changed(scrape):  # since it was dispatched: what it has stored ages by the old one
            market["listings_rate"] = None
        return Done(
            updates=await self._missed(scrape, now) if complete else (),
            cost=units(run.cost_usd),
            effects=[
                Effect(MarketScrape, {"id": scrape.id}, set=judged, add={"api_ms": response.elapsed_ms}),
                Effect(MarketConfig, {"id": scrape.market_id}, set=market),
                *cost_effects(task, run),
            ],
            facts=facts_of(response, found=count, new=new, merged=merged, rejected=errors),
        )

    async def _lost_start(self, task: ScrapeCity, fetch: Fetch) -> ApifyRun | None:
        """Find a run with our input that began since the dispatch and is not recorded: its answer was lost."""
        since = task.scrape.since - CLOCKS_DIFFER
        runs = await self.apify.runs_since(fetch, since)
        if not runs:
            return None
        values = {"source": SOURCE, "since": round((since - CLOCKS_DIFFER).timestamp() * 1000)}
        known = {row["id"] for row in await self.database.fetch(_KNOWN_RUNS, values)}
        ours = self.apify.input(task.scrape)
        for run in runs:
            if run.id not in known and await self.apify.input_of(fetch, run) == ours:
                return run
        return None

    async def _refused(self, now: datetime) -> str | None:
        """Return why no run may be started now; None if one may."""
        source = await one_row(self.database, DataSource, id=SOURCE)
        if source is None:
            return None
        if not source.is_enabled:
            return f"The data source {SOURCE} is disabled."
        used = await used_of(self.database, SOURCE, now)
        limits = (
            ("hour", used.hour, source.max_requests_per_hour, 1),
            ("day", used.day, source.max_requests_per_day, 1),
            ("month", used.month_usd, source.max_usd_per_month, self.apify.max_usd),
        )
        for period, already, limit, more in limits:
            if limit is not None and already + more > limit:
                return f"The data source {SOURCE} has used {already} of the {limit} that it may in this {period}."
        return None

    async def _job_of(self, task: ScrapeCity) -> UUID | None:
        """Return the id of the task's job. The lane has a concurrency of 1, so this is the one task that runs of its
        key; several jobs, such as those of a schedule, may have the same scrape in their parameters."""
        rows = await self.database.fetch(_JOB, {"kind": task.kind, "key": task.key(), "pipeline": NAME})
        return UUID(str(rows[0]["public_id"])) if rows else None

    def _started(self, scrape: ScrapedMarket, job: UUID | None, run: ApifyRun, api_ms: int) -> list[Effect]:
        row = {"source": SOURCE, "market_id": scrape.market_id, "scrape_id": scrape.id, "started_at": run.started_at}
        begun = {**scrape.row(job), "status": "running", "run_id": run.id, "run_started_at": run.started_at}
        return [
            Effect(SourceRun, {"id": run.id}, set={**row, "max_usd": self.apify.max_usd}, insert=True),
            Effect(MarketScrape, {"id": scrape.id}, set=begun, add={"api_ms": api_ms}, insert=True),
        ]

    async def _middle(self, scrape: ScrapedMarket) -> int | None:
        """Return the median rent of what this scrape has shown in its part; None if no rent is known."""
        band = scrape.band or RentBand()
        values = {
            "market": scrape.market_id,
            "since": round(scrape.since.timestamp() * 1000),
            "low": band.low or 0,
            "high": band.high or HIGHEST_RENT,
        }
        rows = await self.database.fetch(_RENTS, values)
        return round(median([row["rent"] for row in rows])) if rows else None

    async def _new(self, scrape: ScrapedMarket) -> int:
        values = {"market": scrape.market_id, "since": round(scrape.since.timestamp() * 1000)}
        (seen,) = await self.database.fetch(_SEEN, values)
        return int(seen["new"] or 0)

    async def _tier_changed(self, scrape: ScrapedMarket) -> bool:
        rows = await self.database.fetch("SELECT tier FROM market_configs WHERE id = :id", {"id": scrape.market_id})
        return bool(rows) and rows[0]["tier"] != scrape.tier

    async def _missed(self, scrape: ScrapedMarket, now: datetime) -> list[Listing]:
        """Return the listings that neither this complete scrape nor the one before has shown: they are verified now."""
        values = {"market": scrape.market_id, "since": round(scrape.since.timestamp() * 1000)}
        (before,) = await self.database.fetch(_COMPLETE_BEFORE, values)
        if before["at"] is None:
            return []
        asked = {
            "market": scrape.market_id,
            "before": before["at"],
            "now": round(now.timestamp() * 1000),
            "most": MOST_MISSED,
        }
        rows = await self.database.fetch(_MISSED, asked)
        return [Listing(listing_key=row["listing_key"], market_id=scrape.market_id, verify_at=now) for row in rows]


# Reading the dataset of a run: rows become listings, which are matched with stored ones.
#
# Pages are read one after the other (their lane has a concurrency of 1), so that two pages never resolve the same new
# listing at the same time: each reads what the one before has stored.


@dataclass(frozen=True, slots=True)
class ItemsStep:
    database: Database
    apify: Apify
    thresholds: Thresholds

    async def read(self, task: ReadItems, fetch: Fetch) -> Outcome:
        """Store one page of listings; rows that cannot be read are kept as rejected, with the reason."""
        rows, total, response = await self.apify.items(fetch, task.dataset_id, task.offset)
        batch = read_rows(rows, task.scrape.market_id, task.scrape.decay_rate, response.at)
        resolved = await self.resolve(batch.found, task.scrape.city)
        following = task.offset + ITEMS_PER_PAGE
        if following < total:
            then = Plan(ReadItems(**task.about(), offset=following))
        else:
            then = Plan(FinishScrape(**task.about(), found=total), due=response.at + self.apify.cost_is_final)
        counted = {
            "found": len(rows),
            "normalised": len(batch.found),
            "errors": len(batch.rejected),
            "skipped": batch.repeated,
            "merged": len(resolved.merges),
            "api_ms": response.elapsed_ms,
        }
        return Done(
            records=[*resolved.listings.values(), *resolved.sources],
            rejected=batch.rejected,
            tasks=[then],
            cost=0,
            effects=[Effect(MarketScrape, {"id": task.scrape.id}, add=counted), *_merges(resolved)],
            facts=facts_of(response, results_count=len(batch.found), merged=len(resolved.merges)),
        )

    async def resolve(self, listings: Sequence[ListingFound], city: str) -> Resolved:
        """Match the listings of one market with stored ones; `city` is the market's."""
        return resolve(listings, await StoredListings(self.database).about(listings), self.thresholds, city)


def _merges(resolved: Resolved) -> list[Effect]:
    return [
        Effect(
            ListingMerge,
            {"source_key": each.source_key},
            set={
                "listing_key": each.listing_key,
                "reason": each.verdict.reason,
                "evidence": dict(each.verdict.evidence),
            },
            insert=True,
        )
        for each in resolved.merges
    ]
