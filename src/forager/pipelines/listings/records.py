"""What listings keeps: a listing per property, and one row for each source that shows it.

A listing is gone only when all of its sources are: a home that one portal drops may still be on another.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, ClassVar, Literal, Self

from forager.core.freshness import FreshRecord
from forager.core.record import Index, Record
from forager.pipelines.listings.blocks import cell_block, zip_block


class Listing(FreshRecord):
    """A property for rent. How often and when it was seen are columns that every record table has.

    None means that the source did not say; a range with one value has it at both ends.
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
    """Derived: where duplicates of the home are looked for (`blocks.py`)."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        return {
            **super().derive(before),
            "block_zip": zip_block(self.address, self.zip),
            "block_cell": cell_block(self.address, self.latitude, self.longitude),
        }


class ListingSource(Record):
    """A listing on one portal. When it was last seen and whether it is gone are columns of every record table."""

    kind: ClassVar[str] = "listing_source"
    table: ClassVar[str] = "listing_sources"
    key_field: ClassVar[str] = "source_key"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("listing_key", "id")), Index(("market_id", "last_seen_at")))

    source_key: str
    """`source:id`."""
    listing_key: str
    """The listing that it shows: its own key, or that of the home that it was merged into."""
    market_id: str
    source: str
    """The portal's host, without `www.`."""
    source_id: str
    url: str
