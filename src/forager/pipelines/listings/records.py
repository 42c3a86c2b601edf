"""The records of listings: a listing per property, and one row for each source that shows it.

A listing is gone only when all of its sources are: a listing that one portal drops may still be on another.
"""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field

from forager.core.freshness import FreshRecord
from forager.core.record import Index, Record
from forager.core.table import TableRow
from forager.pipelines.listings.tasks import MAX_LISTINGS, TIERS, TierName, override_of

# American street addresses in one spelling, so that two portals' spellings compare equal. Pure.


_WORDS: Final = {
    "street": "st", "avenue": "ave", "av": "ave", "road": "rd", "drive": "dr", "lane": "ln", "boulevard": "blvd",
    "place": "pl", "court": "ct", "square": "sq", "terrace": "ter", "parkway": "pkwy", "highway": "hwy",
    "circle": "cir", "trail": "trl", "turnpike": "tpke", "plaza": "plz", "alley": "aly",
    "north": "n", "south": "s", "east": "e", "west": "w",
    "northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw",
    "first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th", "sixth": "6th",
    "seventh": "7th", "eighth": "8th", "ninth": "9th", "tenth": "10th",
}  # fmt: skip
_UNIT: Final = re.compile(
    r"(?:,\s*|\s+)(?:#\s*|(?:apartment|apt|unit|suite|ste)\b\.?\s*#?\s*)([a-z0-9-]+)\s*$", re.IGNORECASE
)
_REMEMBERED: Final = 8_192
"""Addresses whose normal form is cached: each is needed several times while a page is resolved."""
_NUMBER: Final = re.compile(r"\d+[a-z]?(?:-\d+[a-z]?)?")


@lru_cache(maxsize=_REMEMBERED)
def normal_street(street: str) -> str:
    """Return the street line in lower case, without punctuation and unit, with the postal short forms."""
    bare = re.sub(r"[^\w\s-]", "", split_unit(street)[0].lower())
    words = bare.split()
    return " ".join(_WORDS.get(word, word) for word in words)


@lru_cache(maxsize=_REMEMBERED)
def house_number(street: str) -> str | None:
    """Return the house number that the street line starts with; None if it has none."""
    first = normal_street(street).partition(" ")[0]
    return first if _NUMBER.fullmatch(first) else None


def split_unit(street: str) -> tuple[str, str | None]:
    """Split "40 Mill Rd, Apt 3B" into the street line and the unit: ("40 Mill Rd", "3B"); None if it names no unit."""
    match = _UNIT.search(street)
    return (street, None) if match is None else (street[: match.start()].rstrip(" ,"), match[1])


def normal_unit(unit: str | None) -> str:
    """Return the unit in one spelling: `apt. 3-b` and `#3B` are `3b`; an absent one is empty."""
    bare = re.sub(r"^\s*(?:apartment|apt|unit|suite|ste)\b", "", (unit or "").lower())
    return re.sub(r"[^a-z0-9]", "", bare)


def address_key(street: str | None, unit: str | None, zip_code: str | None) -> str | None:
    """Return the name that is the same for all sources of a listing; None if the address is not exact enough."""
    if not street or not zip_code or house_number(street) is None:
        return None
    return f"address:{normal_street(street)}|{normal_unit(unit or split_unit(street)[1])}|{zip_code}"


# Blocks: the small groups in which duplicates of a listing are searched. Pure.
#
# A listing is in up to two: those with its house number in its ZIP code, and those with its house number in its cell of
# the map. A twin that is within 150 m is in the same ZIP block, or in one of the few cells that 150 m can reach. A
# listing without a house number is in none: nothing could prove that two of them are the same.


_CELL_DEGREES: Final = 0.003
"""Some 330 m from south to north."""
_REACH_DEGREES: Final = 0.00136
"""150 m from south to north, and a little more."""


def zip_block(address: str | None, zip_code: str | None) -> str | None:
    """Return the block by ZIP code: `02139:40`."""
    number = house_number(address or "")
    return None if number is None or zip_code is None else f"{zip_code}:{number}"


def cell_block(address: str | None, latitude: float | None, longitude: float | None) -> str | None:
    """Return the block by place: the cell's row and column, and the house number."""
    number = house_number(address or "")
    if number is None or latitude is None or longitude is None:
        return None
    return f"{_cell(latitude)}:{_cell(longitude)}:{number}"


def nearby_cells(address: str | None, latitude: float | None, longitude: float | None) -> tuple[str, ...]:
    """Return the cell blocks of all points within 150 m: the cells that this square touches, mostly one to four."""
    number = house_number(address or "")
    if number is None or latitude is None or longitude is None:
        return ()
    wide = _REACH_DEGREES / max(0.01, math.cos(math.radians(latitude)))
    rows = range(_cell(latitude - _REACH_DEGREES), _cell(latitude + _REACH_DEGREES) + 1)
    columns = range(_cell(longitude - wide), _cell(longitude + wide) + 1)
    return tuple(f"{row}:{column}:{number}" for row in rows for column in columns)


def _cell(degrees: float) -> int:
    return math.floor(degrees / _CELL_DEGREES)


class Listing(FreshRecord):
    """A property for rent. How often and when it was seen are columns that every record table has.

    None means that the source has no value; a range with one value has it at both ends.
    """

    kind: ClassVar[str] = "listing"
    table: ClassVar[str] = "listings"
    key_field: ClassVar[str] = "listing_key"
    quiet: ClassVar[frozenset[str]] = FreshRecord.quiet | {
        "verification_status", "verified_at", "block_zip", "block_cell",
    }  # fmt: skip
    # A search names a market, and mostly a rent. What a scrape has shown, or has missed, is found by `last_seen_at`,
    # and what reached 0 by `zero_at`: rows that are gone are not in that index, so the hourly look stays short.
    indexes: ClassVar[tuple[Index, ...]] = (
        *FreshRecord.indexes,
        Index(("market_id", "id")),
        Index(("market_id", "rent_min", "id")),
        Index(("market_id", "last_seen_at")),
        Index(("zero_at",), where="gone_at IS NULL"),
        Index(("block_zip",), where="block_zip IS NOT NULL"),
        Index(("block_cell",), where="block_cell IS NOT NULL"),
    )

    listing_key: str
    """`source:id` of the source that showed it first."""
    market_id: str
    title: str | None = None
    address: str | None = None
    """Street and number, as the source writes them."""
    unit: str | None = None
    """Only where a source lists single units."""
    city: str | None = None
    state: str | None = None
    """Two letters."""
    zip: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    rent_min: int | None = None
    """US dollars per month."""
    rent_max: int | None = None
    beds_min: float | None = None
    """0 is a studio."""
    beds_max: float | None = None
    baths_min: float | None = None
    baths_max: float | None = None
    area_min: int | None = None
    """Square feet."""
    area_max: int | None = None
    amenities: list[str] | None = None
    photos: list[str] | None = None
    phone: str | None = None
    available_date: date | None = None
    """The first day on which a free unit can be moved into."""
    units: list[dict[str, Any]] | None = None
    """The free units, with what the source shows of each."""
    source_url: str | None = None

    verification_status: Literal["pending", "verified", "gone"] | None = None
    verified_at: datetime | None = None

    block_zip: str | None = None
    block_cell: str | None = None
    """Derived: the blocks in which duplicates are searched."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        return {
            **super().derive(before),
            "block_zip": zip_block(self.address, self.zip),
            "block_cell": cell_block(self.address, self.latitude, self.longitude),
        }


class ListingUnit(TableRow):
    """A free unit of a listing, with the values that searches compare; for a listing that shows no units, its ranges.

    Triggers of the store write these rows with every change of a listing (`views.sql`). A value that a
    unit lacks is the building's, if that has only one, or if none of its units shows it; otherwise it is NULL, and
    matches nothing.
    """

    table: ClassVar[str] = "listing_units"
    key: ClassVar[tuple[str, ...]] = ("listing_id", "number")

    listing_id: int
    number: int
    """Its place in `units`."""
    rent: float | None = None
    """Its own rent, as the source shows it."""
    beds_low: float | None = None
    beds_high: float | None = None
    baths_low: float | None = None
    baths_high: float | None = None
    rent_low: float | None = None
    rent_high: float | None = None
    area_low: float | None = None
    area_high: float | None = None


class ListingSource(Record):
    """A listing on one portal. When it was last seen and whether it is gone are columns of every record table."""

    kind: ClassVar[str] = "listing_source"
    table: ClassVar[str] = "listing_sources"
    key_field: ClassVar[str] = "source_key"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("listing_key", "id")), Index(("market_id", "last_seen_at")))

    source_key: str
    """`source:id`."""
    listing_key: str
    """The key of its listing: its own, or the listing into which it was merged."""
    market_id: str
    source: str
    """The portal's host, without `www.`."""
    source_id: str
    url: str


# The plain tables of listings: which cities are scraped, what the upstream may spend, and what each scrape did.


SOURCE: str = "apify"
"""The id of the one data source."""
OPEN_CIRCUIT = 3
"""Failures in a row after which a market is not dispatched until the circuit is re-armed."""

ScrapeStatus = Literal["running", "completed", "partial", "failed", "skipped"]


class MarketConfig(TableRow):
    """A city that is scraped. `INSERT INTO market_configs (id, display_name, city, state)` is enough for a new one."""

    table: ClassVar[str] = "market_configs"
    key: ClassVar[tuple[str, ...]] = ("id",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    id: Annotated[str, Field(min_length=1, max_length=64)]
    display_name: str
    city: Annotated[str, Field(min_length=1, max_length=100)]
    state: Annotated[str, Field(min_length=2, max_length=2)]
    tier: TierName = "standard"
    is_enabled: bool = True
    max_listings_per_scrape: Annotated[int, Field(ge=1, le=10_000)] = MAX_LISTINGS
    scrape_frequency_hours: Annotated[int | None, Field(ge=1)] = None
    """NULL: as the tier has it."""
    last_scrape_at: datetime | None = None
    last_scrape_status: Literal["completed", "failed", "partial"] | None = None
    consecutive_failures: int = 0
    created_at: datetime | None = None
    listings_rate: int | None = None
    """Points of confidence that its stored listings lose per hour. Where this is not the tier's rate (a tier that was
    changed by SQL; NULL), the next `decay_and_verify` gives the listings the tier's."""
    last_started_at: datetime | None = None
    """Planned start of the scrape that ended at `last_scrape_at`: the next one is due a whole period after it."""

    @property
    def decay_rate(self) -> int:
        return TIERS[self.tier].decay_rate

    @property
    def frequency_hours(self) -> int:
        return self.scrape_frequency_hours or TIERS[self.tier].frequency_hours

    @property
    def frequency_overridden(self) -> bool:
        return override_of(self.scrape_frequency_hours, self.tier) is not None

    @property
    def due_at(self) -> datetime | None:
        """Return the time of the next scrape; None means at once, because it was never scraped.

        Periods count from start to start. A `last_scrape_at` that was set by SQL, to a moment before the last start,
        counts instead.
        """
        if self.last_scrape_at is None:
            return None
        began = min(self.last_started_at or self.last_scrape_at, self.last_scrape_at)
        return began + timedelta(hours=self.frequency_hours)

    @property
    def circuit_open(self) -> bool:
        return self.consecutive_failures >= OPEN_CIRCUIT

    def is_due(self, until: datetime) -> bool:
        """Return whether it falls due before this moment."""
        return self.due_at is None or self.due_at < until


class DataSource(TableRow):
    """Limits on our use of an upstream. NULL means no limit; usage is counted from `source_runs`."""

    table: ClassVar[str] = "data_sources"
    key: ClassVar[tuple[str, ...]] = ("id",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    id: str
    name: str
    is_enabled: bool = True
    max_requests_per_hour: int | None = None
    """Runs started in a UTC hour …"""
    max_requests_per_day: int | None = None
    """… and in a UTC day."""
    max_usd_per_month: Decimal | None = None
    """Spent in a UTC month. A run that has not ended counts with its maximum charge."""
    scheduled: bool = False
    """Set once the three schedules were created, so that a removed one is not created again."""
    created_at: datetime | None = None
    asked: bool = False
    """True if scheduled scraping was started or stopped, by an operator or by `FORAGER_MARKETS_AUTOSTART`. Until then
    `dispatch_scrapes` is paused: scrapes cost money."""


class SourceRun(TableRow):
    """One run of the actor. It is written in the transaction that settles its start, so it is counted exactly once."""

    table: ClassVar[str] = "source_runs"
    key: ClassVar[tuple[str, ...]] = ("id",)
    # For counts of runs per hour, day and month.
    indexes: ClassVar[tuple[Index, ...]] = (Index(("source", "started_at")),)

    id: str
    source: str
    market_id: str
    scrape_id: str
    started_at: datetime
    status: str = "READY"
    """As Apify spells it."""
    max_usd: Decimal = Decimal(0)
    cost_usd: Decimal | None = None
    """NULL until it is final."""


class MarketScrape(TableRow):
    """One scrape of one market: how it went and what it found."""

    table: ClassVar[str] = "market_scrapes"
    key: ClassVar[tuple[str, ...]] = ("id",)
    # The last scrapes of a market, and those that run.
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("market_id", "started_at DESC")),
        Index(("started_at",), where="status = 'running'"),
    )

    id: str
    market_id: str
    status: ScrapeStatus = "running"
    """One that is `running` and has ended was cancelled."""
    reason: str | None = None
    """Why it was skipped or failed, in one word."""
    run_id: str | None = None
    """Its current Apify run …"""
    run_started_at: datetime | None = None
    """… and when that began."""
    started_at: datetime
    """Time of dispatch."""
    ended_at: datetime | None = None
    found: int = 0
    """Rows of the dataset."""
    normalised: int = 0
    """Rows that are listings."""
    errors: int = 0
    """Rows that were rejected."""
    new: int = 0
    updated: int = 0
    merged: int = 0
    """Listings that were merged into one with another key."""
    skipped: int = 0
    """Rows that repeat another row of the same scrape."""
    api_ms: int = 0
    """Milliseconds of Apify's answers that moved the scrape on; polls of a running run are not in
    it."""
    cost_usd: Decimal = Decimal(0)
    complete: bool = False
    """True if a listing that it did not show counts as missed: see docs/listings.md."""
    job_id: str | None = None
    """The public id of its job; NULL in rows of earlier releases."""
    message: str | None = None
    """Why it was skipped or failed, in a sentence: the error of the task that ended it."""


class ListingMerge(TableRow):
    """A source that was merged into the listing of another source, and the reason."""

    table: ClassVar[str] = "listing_merges"
    key: ClassVar[tuple[str, ...]] = ("source_key",)
    stamped: ClassVar[frozenset[str]] = frozenset({"merged_at"})

    source_key: str
    listing_key: str
    reason: str
    evidence: dict[str, Any]
    """Measurements: similarity of the streets, metres, gaps between rents and rooms."""
    merged_at: datetime | None = None


class ListingSplit(TableRow):
    """A wrong merge that was undone: it is never made again."""

    table: ClassVar[str] = "listing_splits"
    key: ClassVar[tuple[str, ...]] = ("source_key", "listing_key")
    stamped: ClassVar[frozenset[str]] = frozenset({"split_at"})

    source_key: str
    listing_key: str
    split_at: datetime | None = None
