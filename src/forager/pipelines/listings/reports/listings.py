"""The queries about listings: search with filters, one listing, the history of its rent.

Confidence is computed at every read. A filter by confidence is a bound on the stored moment at which a listing reaches
0, one for each rate of ageing and each base.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal

from pydantic import Field, field_validator

from forager.core.database import Database, Dialect, Row
from forager.core.errors import NotFound
from forager.core.freshness import DOUBTFUL, SEEN, VERIFIED, badge, confidence, latest_zero_below
from forager.core.record import trusted
from forager.pipelines.listings.matching import MOST_CANDIDATES, OwningMarket, Stored
from forager.pipelines.listings.parse import ListingFound
from forager.pipelines.listings.records import Listing, nearby_cells, zip_block
from forager.pipelines.listings.reports.units import UnitFilter, matching_units, unit_condition, unit_rent
from forager.pipelines.listings.tasks import TIERS
from forager.sdk.queries import QueryPage, Walk, at, columns_of, loads, walk
from forager.sdk.reports import ChangeReport, Report

FEW = 1_000
"""Up to this number of listings with the requested confidence are read by the index of confidence. If more have it, a
walk from the newest listing finds them quickly."""
_RATES = sorted({tier.decay_rate for tier in TIERS.values()})
_BASES = (SEEN, VERIFIED)
_LAST: Final = 1 << 52
"""Sorts a listing without a value behind those that have one."""
_SEARCHED = ("title", "address", "unit", "city", "state", "zip")
"""The columns that are searched for `text`."""

Sort = Literal["newest", "rent", "-rent", "beds", "-beds", "area", "-area", "seen"]
_SORTS: Final[Mapping[str, tuple[str, str]]] = {
    "beds": ("w.beds_min * 10", "w.beds_max * 10"),
    "area": ("w.area_min", "w.area_max"),
    "seen": ("w.last_seen_at", "w.last_seen_at"),
}
"""Name of an order to the SQL that sorts listings, upwards and downwards. Values are integers."""


class BadgeReport(Report):
    color: Literal["green", "yellow", "orange"]
    text: str


class ListingReport(Report):
    """An apartment for rent, as its sources last showed it, and the confidence in that now."""

    id: int
    listing_key: str
    market_id: str
    title: str | None
    address: str | None
    unit: str | None
    city: str | None
    state: str | None
    zip: str | None
    latitude: float | None
    longitude: float | None
    rent_min: int | None = Field(description="US dollars per month.")
    rent_max: int | None
    beds_min: float | None = Field(description="0 is a studio.")
    beds_max: float | None
    baths_min: float | None
    baths_max: float | None
    area_min: int | None = Field(description="Square feet.")
    area_max: int | None
    amenities: list[str]
    photos: list[str]
    phone: str | None
    available_date: date | None
    units: list[dict[str, Any]] = Field(description="The free units, with what the source shows of each.")
    matching_units: list[dict[str, Any]] | None = Field(
        default=None,
        description="In a search with conditions on units: the free units that meet all of them. Empty for a building "
        "that shows no units and was compared by its ranges; null without such conditions.",
    )
    source_url: str | None
    freshness_confidence: int = Field(description="0 to 100, computed now: confidence that it is still available.")
    confidence_updated_at: datetime | None = Field(description="Time when it was last seen or verified.")
    badge: BadgeReport | None = Field(description="Badge to show with it; null: it should not be shown.")
    verification_status: Literal["pending", "verified", "gone"] | None
    verified_at: datetime | None
    is_active: bool
    gone_reason: str | None = Field(description="Why it is not active any more.")
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    days_on_market: int = Field(description="Whole days from its first sighting until now, or until it was gone.")


class ListingFilter(UnitFilter):
    """Conditions and order of a search. Without conditions: active ones with a confidence of at least 40."""

    market: str | None = Field(default=None, max_length=64, description="Only of this market.", examples=["nyc"])
    text: str | None = Field(
        default=None,
        max_length=200,
        description="Words that are all in its title, address, city, state or ZIP code.",
        examples=["foundry row"],
    )
    city: str | None = Field(default=None, max_length=100, description="In this city; case does not matter.")
    zip: str | None = Field(
        default=None, max_length=100, description="In this ZIP code of five digits.", examples=["02139"]
    )
    sort: Sort = Field(
        default="newest",
        description="`newest` first, `rent`, `beds` or `area` upwards, `-rent`, `-beds` or `-area` downwards, or last "
        "`seen` first. With conditions on units, the rent is that of the units that meet them.",
    )
    min_confidence: int | None = Field(
        default=None, ge=0, le=100, description="Confidence of at least this; left out: 40 for active listings."
    )
    inactive: bool = Field(default=False, description="Include listings that are gone or were never confirmed.")

    @field_validator("zip")
    @classmethod
    def _five_digits(cls, value: str | None) -> str | None:
        if value is not None and not (len(value) == 5 and value.isascii() and value.isdigit()):
            raise ValueError("must be five digits, such as 02139")
        return value

    @field_validator("text", "city")
    @classmethod
    def _has_words(cls, value: str | None) -> str | None:
        if value is not None and (not value.split() or "\0" in value):
            raise ValueError("must have a word in it")
        return value

    @property
    def level(self) -> int:
        """The confidence that a listing must have; 0: any."""
        return DOUBTFUL if self.min_confidence is None else self.min_confidence

    @property
    def gone_at_any_level(self) -> bool:
        """Find inactive listings of any confidence: without a bound of its own, a search for them
        would find next to none, since they are below 40 when they are found gone."""
        return self.inactive and self.min_confidence is None


class RentPoint(Report):
    """The rent of a listing from one moment on."""

    at: datetime
    rent_min: int | None
    rent_max: int | None
    gone: bool = False


class ListingHistory(Report):
    days_on_market: int
    rents: list[RentPoint] = Field(description="Newest first.")


async def find_listings(
    db: Database, asked: ListingFilter, now: datetime, *, cursor: str | None = None, limit: int = 20
) -> QueryPage[ListingReport]:
    """Return a page of listings. Newest first, the index of confidence is used if few listings have it; otherwise the
    market drives an index, and the other filters are checked along it. Any other order sorts all that match."""
    few = None
    if asked.level > 0 and not asked.gone_at_any_level:
        few = await few_with_confidence(db, asked.level, now)
    rows, following = await walk(db, _walk_for(asked, now, few, db.dialect), cursor, limit)
    return QueryPage(items=[listing_report(row, now, asked) for row in rows], next_cursor=following)


async def few_with_confidence(db: Database, level: int, now: datetime) -> list[int] | None:
    """Return the ids of all listings with this confidence; None if there are more than `FEW`."""
    values: dict[str, Any] = {"most": FEW + 1}
    parts = [
        f"SELECT id FROM (SELECT id FROM listings WHERE {condition} LIMIT :most) r{number}"
        for number, condition in enumerate(_confident(level, now, values))
    ]
    rows = await db.fetch(" UNION ALL ".join(parts), values) if parts else []
    return [row["id"] for row in rows] if len(rows) <= FEW else None


async def one_listing(db: Database, number: int, now: datetime) -> ListingReport:
    """Return a listing, active or not. Raises `NotFound` if no listing has this id."""
    rows = await db.fetch("SELECT * FROM listings WHERE id = :id", {"id": number})
    if not rows:
        raise NotFound(f"There is no listing {number}.")
    return listing_report(rows[0], now)


def history_of(listing: ListingReport, changes: Sequence[ChangeReport]) -> ListingHistory:
    """Return the changes of the rent from the change log, newest first."""
    points: list[RentPoint] = []
    for change in reversed(changes):
        body = change.body or {}
        point = RentPoint(
            at=change.at, rent_min=body.get("rent_min"), rent_max=body.get("rent_max"), gone=change.op == "gone"
        )
        if not points or _offer(points[-1]) != _offer(point):
            points.append(point)
    return ListingHistory(days_on_market=listing.days_on_market, rents=points[::-1])


def listing_report(row: Row, now: datetime, asked: UnitFilter | None = None) -> ListingReport:
    """Return the report of a stored row; with a filter, also which units meet it."""
    since, gone = at(row["confidence_updated_at"]), at(row["gone_at"])
    first = _moment(row["first_seen_at"])
    points = 0.0 if since is None else confidence(row["confidence_base"], since, row["decay_rate"], now)
    shown = badge(points, first, now) if gone is None else None
    units = loads(row["units"]) or []
    return ListingReport(
        **{name: row[name] for name in _AS_STORED},
        amenities=loads(row["amenities"]) or [],
        photos=loads(row["photos"]) or [],
        units=units,
        matching_units=None if asked is None else matching_units(asked, row, units),
        freshness_confidence=int(points),
        confidence_updated_at=since,
        badge=None if shown is None else BadgeReport(color=shown.color, text=shown.text),
        verification_status=_status(row, now),
        verified_at=at(row["verified_at"]),
        is_active=gone is None,
        first_seen_at=first,
        last_seen_at=_moment(row["last_seen_at"]),
        days_on_market=max(0, ((gone or now) - first).days),
    )


def _status(row: Row, now: datetime) -> Any:
    """`pending` from the moment at which confidence falls below 40, also while the queue has not got to it."""
    if row["gone_at"] is not None or row["confidence_updated_at"] is None:
        return row["verification_status"]
    due = at(row["verify_at"])
    return "pending" if due is None or due <= now else row["verification_status"]


def _walk_for(asked: ListingFilter, now: datetime, few: Sequence[int] | None, dialect: Dialect) -> Walk:
    values: dict[str, Any] = {}
    where: list[str] = []
    if asked.market is not None:
        where.append("market_id = :market")
        values["market"] = asked.market
    if few is not None:
        where.append(f"id IN ({', '.join(map(str, few)) or 'NULL'})")
    only = [*_place_conditions(asked, dialect, values)]
    if asked.level > 0:
        beside = ["w.gone_at IS NOT NULL"] if asked.gone_at_any_level else []
        only.append(f"({' OR '.join([*beside, *_confident(asked.level, now, values)]) or '1 = 0'})")
    if not asked.inactive:
        only.append("w.gone_at IS NULL")
    if (units := unit_condition(asked, values)) is not None:
        only.append(units)
    if asked.sort == "newest":
        source = "SELECT * FROM listings"
        return Walk("listings", source, ("id",), tuple(where), descending=True, only=tuple(only), values=values)
    source, descending = _sorted(asked)
    order, of = ("by_number", "id"), f"listings by {asked.sort}"
    return Walk(of, source, order, (*where, *only), descending=descending, values=values)


def _place_conditions(asked: ListingFilter, dialect: Dialect, values: dict[str, Any]) -> Iterable[str]:
    if asked.city is not None:
        values["city"] = " ".join(asked.city.split())
        yield "lower(w.city) = lower(:city)"
    if asked.zip is not None:
        values["zip"] = asked.zip
        yield "w.zip = :zip"
    like = "LIKE" if dialect == "sqlite" else "ILIKE"
    searched = " || ' ' || ".join(f"coalesce(w.{name}, '')" for name in _SEARCHED)
    for number, word in enumerate((asked.text or "").split()):
        escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        values[f"word{number}"] = f"%{escaped}%"
        yield f"({searched}) {like} :word{number} ESCAPE '\\'"


def _sorted(asked: ListingFilter) -> tuple[str, bool]:
    """Return the source of an order and whether it goes downwards. What has no value comes last either way."""
    name, descending = asked.sort.removeprefix("-"), asked.sort.startswith("-") or asked.sort == "seen"
    by = unit_rent(asked, highest=descending) if name == "rent" else _SORTS[name][descending]
    number = f"CAST(coalesce({by}, {-1 if descending else _LAST}) AS BIGINT)"
    return f"SELECT * FROM (SELECT w.*, {number} AS by_number FROM listings w) w", descending


def _confident(level: int, now: datetime, values: dict[str, Any]) -> Iterable[str]:
    """Yield a condition for each rate and base whose listings can have this confidence. Adds the values it names."""
    number = 0
    for rate in _RATES:
        for base in _BASES:
            bound = latest_zero_below(level, base, rate, now)
            if bound is None:
                continue
            values |= {f"rate{number}": rate, f"base{number}": base, f"zero{number}": int(bound.timestamp() * 1000)}
            yield f"(decay_rate = :rate{number} AND confidence_base = :base{number} AND zero_at > :zero{number})"
            number += 1


def _moment(ms: int) -> datetime:
    moment = at(ms)
    if moment is None:
        raise ValueError("a record without the time of its sighting")
    return moment


def _offer(point: RentPoint) -> tuple[Any, ...]:
    return point.rent_min, point.rent_max, point.gone


_AS_STORED = (
    "id", "listing_key", "market_id", "title", "address", "unit", "city", "state", "zip", "latitude", "longitude",
    "rent_min", "rent_max", "beds_min", "beds_max", "baths_min", "baths_max", "area_min", "area_max", "phone",
    "available_date", "source_url", "gone_reason", "times_seen",
)  # fmt: skip


# The sources of a listing, and why they were merged.


_SOURCES = """
SELECT s.source_key, s.source, s.source_id, s.url, s.first_seen_at, s.last_seen_at, s.gone_at, s.gone_reason,
       m.reason, m.evidence, m.merged_at
FROM listing_sources s LEFT JOIN listing_merges m ON m.source_key = s.source_key AND m.listing_key = s.listing_key
WHERE s.listing_key = :key ORDER BY CASE WHEN s.source_key = s.listing_key THEN 0 ELSE 1 END, s.first_seen_at, s.id
"""


class SourceReport(Report):
    """A portal that shows the listing."""

    source_key: str = Field(description="The argument of `split`.")
    source: str
    source_id: str
    url: str
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    gone_at: datetime | None = Field(description="Time when this portal no longer had it.")
    gone_reason: str | None
    merged_at: datetime | None = Field(description="Time of the merge into this listing; null for its first source.")
    reason: str | None = Field(description="Why it was merged.")
    evidence: dict[str, Any] | None = Field(description="The measured evidence.")


async def sources_of(db: Database, listing_key: str) -> list[SourceReport]:
    """Return the sources of a listing, the first one first."""
    rows = await db.fetch(_SOURCES, {"key": listing_key})
    times = ("first_seen_at", "last_seen_at", "gone_at", "merged_at")
    return [
        SourceReport(**{**row, **{name: at(row[name]) for name in times}, "evidence": loads(row["evidence"])})
        for row in rows
    ]


async def merged_source(db: Database, listing_key: str, source: str) -> SourceReport:
    """Return a source that was merged into this listing. Raises `NotFound` if there is no such merge."""
    for each in await sources_of(db, listing_key):
        if source in (each.source_key, each.source_id) and each.source_key != listing_key:
            return each
    raise NotFound(f"No source {source!r} was merged into this listing. `forager listings why` shows its sources.")


# The stored rows that concern a batch of listings: those of its sources, and the candidates for near duplicates.


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
# A listing is mostly in both kinds of blocks; it is read once. IS NOT NULL is the condition of the two partial indexes.
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
class StoredListings:
    database: Database

    async def about(self, listings: Sequence[ListingFound]) -> Stored:
        """Return the listings that these sources show, and the candidates of the others. The listings are of
        one market."""
        rows = await self._by_keys(_KNOWN, (each.source.source_key for each in listings))
        known = {row["source_key"]: row["listing_key"] for row in rows}
        shared = {row["listing_key"] for row in rows if row["shared"]}
        stored = {listing.listing_key: listing for listing in map(_listing, await self._by_keys(_BY_KEY, shared))}
        unknown = [each.listing for each in listings if each.source.source_key not in known]
        for row in await self._candidates(unknown):
            listing = _listing(row)
            stored[listing.listing_key] = listing
            if row["shared"]:
                shared.add(listing.listing_key)
        split = await self._by_keys(_SPLITS, (each.listing_key for each in unknown))
        markets = {each.listing.market_id for each in listings}
        elsewhere = {row["listing_key"] for row in rows if row["market_id"] not in markets}
        elsewhere |= {listing.listing_key for listing in stored.values() if listing.market_id not in markets}
        owners = {
            row["listing_key"]: OwningMarket(row["market_id"], row["city"])
            for row in await self._by_keys(_OWNERS, elsewhere)
            if row["market_id"] not in markets
        }
        splits = {(row["source_key"], row["listing_key"]) for row in split}
        return Stored(known, stored, shared, splits, owners)

    async def _candidates(self, listings: Sequence[Listing]) -> list[Row]:
        """Return the stored listings in the blocks of these: some more than are compared, because blocks overlap."""
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
