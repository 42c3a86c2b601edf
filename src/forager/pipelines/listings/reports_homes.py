"""Reading what the store knows about a batch of listings: their homes, and the candidates for near duplicates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from forager.core.database import Database, Row
from forager.core.trusted import trusted
from forager.kit.queries import columns_of
from forager.pipelines.listings.blocks import nearby_cells, zip_block
from forager.pipelines.listings.parse import Found
from forager.pipelines.listings.records import Listing
from forager.pipelines.listings.resolve import MOST_CANDIDATES, Owner, Stored

AT_ONCE: Final = 125
"""Listings whose candidates one query reads."""
_MOST: Final = MOST_CANDIDATES * AT_ONCE

_FIELDS: Final = ", ".join(f'l."{name}"' for name in Listing.model_fields)
_DECODERS: Final = tuple((name, column.decode) for name, column in columns_of(Listing).items() if column.decode)
_SHARED: Final = """
EXISTS (SELECT 1 FROM listing_sources o WHERE o.listing_key = {0}.listing_key AND o.source_key <> {0}.listing_key)
"""
_KNOWN: Final = f"""
SELECT s.source_key, s.listing_key, s.market_id, {_SHARED.format("s")} AS shared
FROM listing_sources s WHERE s.source_key IN :keys
"""
_BY_KEY: Final = f"SELECT {_FIELDS} FROM listings l WHERE l.listing_key IN :keys"
# A home is mostly in both kinds of blocks; it is read once. IS NOT NULL is the condition of the two partial indexes.
_CANDIDATES: Final = f"""
SELECT {_FIELDS}, {_SHARED.format("l")} AS shared FROM listings l WHERE l.id IN (
  SELECT id FROM (SELECT id FROM listings WHERE block_zip IS NOT NULL AND block_zip IN :zips LIMIT {_MOST}) by_zip
  UNION
  SELECT id FROM (SELECT id FROM listings WHERE block_cell IS NOT NULL AND block_cell IN :cells LIMIT {_MOST}) by_cell)
ORDER BY l.id
"""
_OWNERS: Final = """
SELECT l.listing_key, l.market_id, m.city
FROM listings l JOIN market_configs m ON m.id = l.market_id WHERE l.listing_key IN :keys
"""
_SPLITS: Final = "SELECT source_key, listing_key FROM listing_splits WHERE source_key IN :keys"


@dataclass(frozen=True, slots=True)
class StoredHomes:
    database: Database

    async def about(self, listings: Sequence[Found]) -> Stored:
        """Return the homes that these sources are known to show, and the candidates of the others. The listings are of
        one market."""
        rows = await self._by_keys(_KNOWN, (each.source.source_key for each in listings))
        known = {row["source_key"]: row["listing_key"] for row in rows}
        shared = {row["listing_key"] for row in rows if row["shared"]}
        homes = {home.listing_key: home for home in map(_listing, await self._by_keys(_BY_KEY, shared))}
        unknown = [each.listing for each in listings if each.source.source_key not in known]
        for row in await self._candidates(unknown):
            home = _listing(row)
            homes[home.listing_key] = home
            if row["shared"]:
                shared.add(home.listing_key)
        split = await self._by_keys(_SPLITS, (each.listing_key for each in unknown))
        markets = {each.listing.market_id for each in listings}
        elsewhere = {row["listing_key"] for row in rows if row["market_id"] not in markets}
        elsewhere |= {home.listing_key for home in homes.values() if home.market_id not in markets}
        owners = {
            row["listing_key"]: Owner(row["market_id"], row["city"])
            for row in await self._by_keys(_OWNERS, elsewhere)
            if row["market_id"] not in markets
        }
        splits = {(row["source_key"], row["listing_key"]) for row in split}
        return Stored(known, homes, shared, splits, owners)

    async def _candidates(self, listings: Sequence[Listing]) -> list[Row]:
        """Stored homes in the blocks of these listings: some more than are compared, since blocks overlap."""
        rows: list[Row] = []
        for start in range(0, len(listings), AT_ONCE):
            part = listings[start : start + AT_ONCE]
            zips = {block for each in part if (block := zip_block(each.address, each.zip))}
            cells = {cell for each in part for cell in nearby_cells(each.address, each.latitude, each.longitude)}
            if zips or cells:
                rows += await self.database.fetch_by_keys(_CANDIDATES, {"zips": list(zips), "cells": list(cells)})
        return rows

    async def _by_keys(self, sql: str, keys: Iterable[str]) -> Sequence[Row]:
        listed = list(dict.fromkeys(keys))
        return await self.database.fetch_by_keys(sql, {"keys": listed}) if listed else ()


def _listing(row: Row) -> Listing:
    values: dict[str, Any] = {name: row[name] for name in Listing.model_fields}
    for name, decode in _DECODERS:
        if values[name] is not None:
            values[name] = decode(values[name])
    return trusted(Listing, values)  # checked when it was found
