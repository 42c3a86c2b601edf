"""Which stored home each listing of a batch is: the same source again, a near duplicate, or a new home. Pure.

A near duplicate is merged into the stored home, and why is kept as a row; a wrong merge that was split is never made
again. Two rows of one batch that show the same home become one sighting of it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forager.pipelines.listings.address import address_key
from forager.pipelines.listings.blocks import cell_block, nearby_cells, zip_block
from forager.pipelines.listings.parse import Found
from forager.pipelines.listings.records import Listing, ListingSource
from forager.pipelines.listings.same_home import Thresholds, Verdict, merge, same

MOST_CANDIDATES = 20
"""Homes that one listing is compared with."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A source that turned out to show a stored home, and why."""

    source_key: str
    listing_key: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Owner:
    """The market that a stored home belongs to, if that is not the one that is being scraped."""

    market_id: str
    city: str
    """The market's."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store knows about the listings of a batch."""

    known: Mapping[str, str] = field(default_factory=dict)
    """By source key: the home that the source is known to show."""
    homes: Mapping[str, Listing] = field(default_factory=dict)
    """By key: the homes of these sources, and all candidates."""
    shared: Collection[str] = ()
    """Keys of homes that several sources show: what one source leaves out, another may have."""
    splits: Collection[tuple[str, str]] = ()
    """(source key, listing key) that must not be merged again."""
    owners: Mapping[str, Owner] = field(default_factory=dict)
    """By listing key: the other market that the home belongs to. A market that was removed owns none."""


@dataclass(slots=True)
class Resolved:
    listings: dict[str, Listing] = field(default_factory=dict)
    """By key: one sighting of each home."""
    sources: list[ListingSource] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)


def resolve(batch: Iterable[Found], stored: Stored, thresholds: Thresholds, city: str) -> Resolved:
    """Decide for every listing of a batch, in order. `city` is that of the market that is being scraped."""
    resolved, nearby = Resolved(), _Nearby(stored.homes.values())
    shared = set(stored.shared)
    for each in batch:
        source = each.source.source_key
        key = stored.known.get(source)
        if key is None:
            key = source
            match = _best(each.listing, nearby.candidates(each.listing), stored.splits, thresholds)
            if match is not None:
                key = match.listing_key
                shared.add(key)
                resolved.merges.append(match)
        before = resolved.listings.get(key) or (stored.homes.get(key) if key in shared else None)
        market = _market_of(each.listing, stored.owners.get(key), city)
        seen = each.listing.model_copy(update={"listing_key": key, **market})
        resolved.listings[key] = seen if before is None else merge(before, seen).model_copy(update=market)
        own = {"listing_key": key, "market_id": market["market_id"]}
        resolved.sources.append(each.source.model_copy(update=own))
        nearby.add(resolved.listings[key])
    return resolved


def _market_of(seen: Listing, owner: Owner | None, city: str) -> dict[str, Any]:
    """Return the market that a home belongs to, and its rate of ageing: None, which leaves the stored rate as it is, if
    another market owns the home. A new rate of the owner may be stored before this sighting is, and must stay.

    Scrapes of neighbouring markets show the same homes. A home stays in its market, so that it does not move with every
    scrape, unless it is in the city of the market that is being scraped and not in that of its own.
    """
    if owner is None or (_is_in(seen, city) and not _is_in(seen, owner.city)):
        return {"market_id": seen.market_id, "decay_rate": seen.decay_rate}
    return {"market_id": owner.market_id, "decay_rate": None}


def _is_in(home: Listing, city: str) -> bool:
    return home.city is not None and home.city.casefold() == city.casefold()


def judge(one: Listing, other: Listing, thresholds: Thresholds) -> Verdict:
    """The same address with the same unit is the same home; otherwise everything that is known must agree."""
    exact = address_key(one.address, one.unit, one.zip)
    if exact is not None and exact == address_key(other.address, other.unit, other.zip):
        return Verdict(True, "The address and the unit are the same.", {"address": exact})
    return same(one, other, thresholds)


def _best(
    listing: Listing, candidates: Sequence[Listing], splits: Collection[tuple[str, str]], thresholds: Thresholds
) -> Merge | None:
    """The most alike of the candidates that are the same home."""
    matches = [
        Merge(listing.listing_key, each.listing_key, verdict)
        for each in candidates
        if (listing.listing_key, each.listing_key) not in splits and (verdict := judge(listing, each, thresholds)).same
    ]
    return max(matches, key=_alike, default=None)


def _alike(match: Merge) -> float:
    street = match.verdict.evidence.get("street", 100.0)
    return float(street) if isinstance(street, int | float) else 100.0


class _Nearby:
    """Homes by their blocks: those of the store, and those of the batch as they are resolved."""

    def __init__(self, homes: Iterable[Listing]) -> None:
        self._homes: dict[str, Listing] = {}
        self._blocks: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for home in homes:
            self.add(home)

    def add(self, home: Listing) -> None:
        self._homes[home.listing_key] = home
        for block in (
            zip_block(home.address, home.zip),
            cell_block(home.address, home.latitude, home.longitude),
        ):
            if block is not None:
                self._blocks[block][home.listing_key] = None

    def candidates(self, listing: Listing) -> list[Listing]:
        """At most 20, those of the same ZIP code first."""
        by_zip = zip_block(listing.address, listing.zip)
        blocks = [*([by_zip] if by_zip else ()), *nearby_cells(listing.address, listing.latitude, listing.longitude)]
        keys = dict.fromkeys(key for block in blocks for key in self._blocks.get(block, ()))
        return [self._homes[key] for key in keys if key != listing.listing_key][:MOST_CANDIDATES]
