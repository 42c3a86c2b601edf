"""The plain tables of listings: which cities are scraped, what the upstream may spend, and what each scrape did."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from forager.core.record import Index
from forager.core.table import TableRow
from forager.pipelines.listings.markets import MAX_LISTINGS, TIERS, TierName, override_of

SOURCE: str = "apify"
"""The id of the one data source."""
OPEN_CIRCUIT = 3
"""So many failures in a row, and a market is not dispatched until the circuit is re-armed."""

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
    """When the scrape that ended at `last_scrape_at` was to start: the next one is due a whole period after it."""

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
        """When it is to be scraped next; None: at once, since it never was.

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
    """Limits on what we ask of an upstream. NULL means no limit; usage is counted from `source_runs`."""

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
    """Spent in a UTC month. A run that has not ended counts with all that it may cost."""
    scheduled: bool = False
    """Whether the three schedules were created: they are once, so that removing one lasts."""
    created_at: datetime | None = None
    asked: bool = False
    """Whether scraping by schedule was started or stopped, by an operator or by `FORAGER_MARKETS_AUTOSTART`. Until then
    `dispatch_scrapes` is paused: scrapes cost money."""


class SourceRun(TableRow):
    """One run of the actor. It is written in the transaction that knows of it, so it is counted exactly once."""

    table: ClassVar[str] = "source_runs"
    key: ClassVar[tuple[str, ...]] = ("id",)
    # What was started in an hour, a day, a month.
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
    """When it was dispatched."""
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
    """Listings that turned out to be a home that was stored under another key."""
    skipped: int = 0
    """Rows that repeat another row of the same scrape."""
    api_ms: int = 0
    """Milliseconds that Apify took for the answers that moved the scrape on; looks at a run that went on are not in
    it."""
    cost_usd: Decimal = Decimal(0)
    complete: bool = False
    """Whether what it did not show was missed: see docs/listings.md."""
    job_id: str | None = None
    """The public id of its job; NULL in rows of earlier releases."""
    message: str | None = None
    """Why it was skipped or failed, in a sentence: the error of the task that ended it."""


class ListingMerge(TableRow):
    """A source that was merged into a home which another source had shown first, and why."""

    table: ClassVar[str] = "listing_merges"
    key: ClassVar[tuple[str, ...]] = ("source_key",)
    stamped: ClassVar[frozenset[str]] = frozenset({"merged_at"})

    source_key: str
    listing_key: str
    reason: str
    evidence: dict[str, Any]
    """What was measured: similarity of the streets, metres, gaps between rents and rooms."""
    merged_at: datetime | None = None


class ListingSplit(TableRow):
    """A wrong merge that was undone: it is never made again."""

    table: ClassVar[str] = "listing_splits"
    key: ClassVar[tuple[str, ...]] = ("source_key", "listing_key")
    stamped: ClassVar[frozenset[str]] = frozenset({"split_at"})

    source_key: str
    listing_key: str
    split_at: datetime | None = None
