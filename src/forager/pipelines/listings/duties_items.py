"""Reading the dataset of a run: rows become listings, and listings the homes that they show.

Pages are read one after the other (their lane has a concurrency of 1), so that two pages never resolve the same new
home at the same time: what one has stored, the next one sees.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from forager.core.database import Database, Row
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.table import Effect
from forager.core.task import Plan
from forager.kit.queries import columns_of
from forager.pipelines.listings.apify import ITEMS_PER_PAGE, Apify, facts_of
from forager.pipelines.listings.blocks import nearby_cells, zip_block
from forager.pipelines.listings.parse import Found, read_rows
from forager.pipelines.listings.records import Listing
from forager.pipelines.listings.resolve import MOST_CANDIDATES, Resolved, Stored, resolve
from forager.pipelines.listings.same_home import Thresholds
from forager.pipelines.listings.tables import ListingMerge, MarketScrape
from forager.pipelines.listings.tasks import FinishScrape, ReadItems

AT_ONCE = 125
"""Listings whose candidates one query reads."""
ROUND = 64
"""Lists of a query have a multiple of so many values."""
_FIELDS = ", ".join(f'"{name}"' for name in Listing.model_fields)


@dataclass(frozen=True, slots=True)
class ItemsDuty:
    database: Database
    apify: Apify
    thresholds: Thresholds

    async def read(self, task: ReadItems, fetch: Fetch) -> Outcome:
        """Store one page of listings; rows that are none are kept beside them with the reason."""
        rows, total, response = await self.apify.items(fetch, task.dataset_id, task.offset)
        batch = read_rows(rows, task.scrape.market_id, task.scrape.decay_rate, response.at)
        resolved = await self.resolve(batch.found)
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

    async def resolve(self, listings: Sequence[Found]) -> Resolved:
        """Which stored homes these listings show."""
        keys = [each.source.source_key for each in listings]
        known = await self._known(keys)
        unknown = [each.listing for each in listings if each.source.source_key not in known]
        homes = {home.listing_key: home for home in await self._candidates(unknown)}
        shared = await self._shared([*known.values(), *homes])
        missing = [key for key in shared if key not in homes]
        homes |= {home.listing_key: home for home in await self._by_key(missing)}
        splits = await self._splits([each.listing_key for each in unknown])
        return resolve(listings, Stored(known, homes, shared, splits), self.thresholds)

    async def _known(self, sources: Sequence[str]) -> dict[str, str]:
        sql = "SELECT source_key, listing_key FROM listing_sources WHERE source_key IN ({})"
        return {row["source_key"]: row["listing_key"] for row in await self._among(sql, sources)}

    async def _shared(self, keys: Sequence[str]) -> set[str]:
        sql = "SELECT DISTINCT listing_key FROM listing_sources WHERE listing_key <> source_key AND listing_key IN ({})"
        return {row["listing_key"] for row in await self._among(sql, keys)}

    async def _splits(self, sources: Sequence[str]) -> set[tuple[str, str]]:
        sql = "SELECT source_key, listing_key FROM listing_splits WHERE source_key IN ({})"
        return {(row["source_key"], row["listing_key"]) for row in await self._among(sql, sources)}

    async def _by_key(self, keys: Sequence[str]) -> list[Listing]:
        sql = f"SELECT {_FIELDS} FROM listings WHERE listing_key IN ({{}})"
        return [_listing(row) for row in await self._among(sql, keys)]

    async def _candidates(self, listings: Sequence[Listing]) -> list[Listing]:
        """Stored homes in the blocks of these listings: some more than are compared, since blocks overlap."""
        homes: list[Listing] = []
        for start in range(0, len(listings), AT_ONCE):
            part = listings[start : start + AT_ONCE]
            zips = [block for each in part if (block := zip_block(each.address, each.zip))]
            cells = [cell for each in part for cell in nearby_cells(each.address, each.latitude, each.longitude)]
            for column, blocks in (("block_zip", zips), ("block_cell", cells)):
                most = MOST_CANDIDATES * AT_ONCE
                sql = f"SELECT {_FIELDS} FROM listings WHERE {column} IN ({{}}) LIMIT {most}"
                homes += [_listing(row) for row in await self._among(sql, blocks)]
        return homes

    async def _among(self, sql: str, values: Iterable[str]) -> Sequence[Row]:
        """Run a query with a list of texts in the place of `{}`.

        The list is filled up to a round number, so that there are few different statements and their plans are kept.
        """
        listed = list(dict.fromkeys(values))
        if not listed:
            return []
        listed += listed[-1:] * (-len(listed) % ROUND)
        named = {f"v{number}": value for number, value in enumerate(listed)}
        return await self.database.fetch(sql.format(", ".join(f":{name}" for name in named)), named)


def _listing(row: Row) -> Listing:
    columns = columns_of(Listing)
    values: dict[str, Any] = {name: columns[name].decoded(row[name]) for name in Listing.model_fields}
    return Listing.model_construct(**values)  # checked when it was found


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
