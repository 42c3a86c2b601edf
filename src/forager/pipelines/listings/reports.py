"""The queries about listings: search with filters, one listing, the history of its rent.

Confidence is computed at every read. A filter by confidence is a bound on the stored moment at which a listing reaches
0, one for each rate of ageing: `zero_at >= now + c / rate`.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import NotFound
from forager.core.freshness import DOUBTFUL, badge, confidence, earliest_zero
from forager.kit.queries import Database, Page, Row, Walk, at, loads, walk
from forager.kit.reports import ChangeReport, Report
from forager.pipelines.listings.markets import TIERS

FEW = 1_000
"""If no more listings have the confidence, they are read by the index of it; if more have, newest first meets them."""
_RATES = sorted({tier.decay_rate for tier in TIERS.values()})


class BadgeReport(Report):
    color: Literal["green", "yellow", "orange"]
    text: str


class ListingReport(Report):
    """A home for rent, as its sources last showed it, and how far that can be trusted now."""

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
    source_url: str | None
    freshness_confidence: int = Field(description="0 to 100, computed now: how sure it is that the home is still free.")
    confidence_updated_at: datetime | None = Field(description="When it was last seen or verified.")
    badge: BadgeReport | None = Field(description="What to show beside it; null: it should not be shown.")
    verification_status: Literal["pending", "verified", "gone"] | None
    verified_at: datetime | None
    is_active: bool
    gone_reason: str | None = Field(description="Why it is not active any more.")
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    days_on_market: int = Field(description="Whole days from its first sighting until now, or until it was gone.")


class ListingFilter(BaseModel):
    """Which listings. Without further words: active ones with a confidence of at least 40."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    market: str | None = Field(default=None, max_length=64, description="Of this market.", examples=["nyc"])
    min_rent: int | None = Field(
        default=None, ge=0, le=10_000_000, description="Lowest rent: some unit costs at least this."
    )
    max_rent: int | None = Field(
        default=None, ge=0, le=10_000_000, description="Highest rent: some unit costs at most this."
    )
    beds: float | None = Field(default=None, ge=0, le=100, description="Number of bedrooms of some unit; 0: studios.")
    baths: float | None = Field(default=None, ge=0, le=100, description="Number of bathrooms of some unit.")
    min_confidence: int | None = Field(
        default=None, ge=0, le=100, description="Confidence of at least this; left out: 40 for active listings."
    )
    inactive: bool = Field(default=False, description="Also listings that are gone or were never confirmed.")

    @property
    def level(self) -> int:
        """The confidence that a listing must have; 0: any."""
        return DOUBTFUL if self.min_confidence is None else self.min_confidence

    @property
    def gone_at_any_level(self) -> bool:
        """Whether inactive listings are found whatever their confidence: without a bound of its own, a search for them
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
) -> Page[ListingReport]:
    """Newest first. The index of confidence is used if few listings have it; otherwise the market drives an index. The
    other filters are looked at along it."""
    few = None
    if asked.level > 0 and not asked.gone_at_any_level:
        few = await few_with_confidence(db, asked.level, now)
    rows, following = await walk(db, _walk_for(asked, now, few), cursor, limit)
    return Page(items=[listing_report(row, now) for row in rows], next_cursor=following)


async def few_with_confidence(db: Database, level: int, now: datetime) -> list[int] | None:
    """Return the ids of all listings with this confidence; None if there are more than `FEW`."""
    values: dict[str, Any] = {"most": FEW + 1}
    parts = [
        f"SELECT id FROM (SELECT id FROM listings WHERE {condition} LIMIT :most) r{number}"
        for number, condition in enumerate(_confident(level, now, values))
    ]
    rows = await db.fetch(" UNION ALL ".join(parts), values)
    return [row["id"] for row in rows] if len(rows) <= FEW else None


async def one_listing(db: Database, number: int, now: datetime) -> ListingReport:
    """Active or not. Raises `NotFound` if there is none with this id."""
    rows = await db.fetch("SELECT * FROM listings WHERE id = :id", {"id": number})
    if not rows:
        raise NotFound(f"There is no listing {number}.")
    return listing_report(rows[0], now)


def history_of(listing: ListingReport, changes: Sequence[ChangeReport]) -> ListingHistory:
    """How the rent changed, from the change log, newest first."""
    points: list[RentPoint] = []
    for change in reversed(changes):
        body = change.body or {}
        point = RentPoint(
            at=change.at, rent_min=body.get("rent_min"), rent_max=body.get("rent_max"), gone=change.op == "gone"
        )
        if not points or _offer(points[-1]) != _offer(point):
            points.append(point)
    return ListingHistory(days_on_market=listing.days_on_market, rents=points[::-1])


def listing_report(row: Row, now: datetime) -> ListingReport:
    since, gone = at(row["confidence_updated_at"]), at(row["gone_at"])
    first = _moment(row["first_seen_at"])
    points = 0.0 if since is None else confidence(row["confidence_base"], since, row["decay_rate"], now)
    shown = badge(points, first, now) if gone is None else None
    return ListingReport(
        **{name: row[name] for name in _AS_STORED},
        amenities=loads(row["amenities"]) or [],
        photos=loads(row["photos"]) or [],
        units=loads(row["units"]) or [],
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


def _walk_for(asked: ListingFilter, now: datetime, few: Sequence[int] | None) -> Walk:
    values: dict[str, Any] = {}
    where: list[str] = []
    only: list[str] = []
    if asked.market is not None:
        where.append("market_id = :market")
        values["market"] = asked.market
    for name, condition in (
        ("min_rent", "w.rent_max >= :min_rent"),
        ("max_rent", "w.rent_min <= :max_rent"),
        ("beds", "w.beds_min <= :beds AND w.beds_max >= :beds"),
        ("baths", "w.baths_min <= :baths AND w.baths_max >= :baths"),
    ):
        value = getattr(asked, name)
        if value is not None:
            values[name] = value
            only.append(condition)
    if asked.level > 0:
        beside = ["w.gone_at IS NOT NULL"] if asked.gone_at_any_level else []
        only.append(f"({' OR '.join([*beside, *_confident(asked.level, now, values)])})")
    if few is not None:
        where.append(f"id IN ({', '.join(map(str, few)) or 'NULL'})")
    if not asked.inactive:
        only.append("w.gone_at IS NULL")
    return Walk(
        "listings", "SELECT * FROM listings", ("id",), tuple(where), descending=True, only=tuple(only), values=values
    )


def _confident(level: int, now: datetime, values: dict[str, Any]) -> Iterable[str]:
    for number, rate in enumerate(_RATES):
        values[f"rate{number}"] = rate
        values[f"zero{number}"] = round(earliest_zero(level, rate, now).timestamp() * 1000)
        yield f"(decay_rate = :rate{number} AND zero_at >= :zero{number})"


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
