"""Reading the dataset of a run: rows become listings, and listings the homes that they show.

Pages are read one after the other (their lane has a concurrency of 1), so that two pages never resolve the same new
home at the same time: what one has stored, the next one sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forager.core.database import Database
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.listings.apify import ITEMS_PER_PAGE, Apify, facts_of
from forager.pipelines.listings.parse import Found, read_rows
from forager.pipelines.listings.reports_homes import StoredHomes
from forager.pipelines.listings.resolve import Resolved, resolve
from forager.pipelines.listings.same_home import Thresholds
from forager.pipelines.listings.tables import ListingMerge, MarketScrape
from forager.pipelines.listings.tasks import FinishScrape, ReadItems


@dataclass(frozen=True, slots=True)
class ItemsDuty:
    database: Database
    apify: Apify
    thresholds: Thresholds

    async def read(self, task: ReadItems, fetch: Fetch) -> Outcome:
        """Store one page of listings; rows that cannot be read are kept beside them with the reason."""
        rows, total, response = await self.apify.items(fetch, task.dataset_id, task.offset)
        batch = read_rows(rows, task.scrape.market_id, task.scrape.decay_rate, response.at)
        resolved = await self.resolve(batch.found, task.scrape.city)
        following = task.offset + ITEMS_PER_PAGE
        if following < total:
            then = Plan(ReadItems(**task.about(), offset=following))
        else:
            then = Plan(FinishScrape(**task.about()), due=response.at + self.apify.cost_is_final)
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

    async def resolve(self, listings: Sequence[Found], city: str) -> Resolved:
        """Which stored homes these listings of one market show; `city` is the market's."""
        return resolve(listings, await StoredHomes(self.database).about(listings), self.thresholds, city)


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
