"""Which sources show a home, and why they were taken for the same one."""

from datetime import datetime
from typing import Any

from pydantic import Field

from forager.core.database import Database
from forager.core.errors import NotFound
from forager.kit.queries import at, loads
from forager.kit.reports import Report

_SOURCES = """
SELECT s.source_key, s.source, s.source_id, s.url, s.first_seen_at, s.last_seen_at, s.gone_at, s.gone_reason,
       m.reason, m.evidence, m.merged_at
FROM listing_sources s LEFT JOIN listing_merges m ON m.source_key = s.source_key AND m.listing_key = s.listing_key
WHERE s.listing_key = :key ORDER BY CASE WHEN s.source_key = s.listing_key THEN 0 ELSE 1 END, s.first_seen_at, s.id
"""


class SourceReport(Report):
    """A portal that shows the home."""

    source_key: str = Field(description="What `split` takes.")
    source: str
    source_id: str
    url: str
    first_seen_at: datetime | None
    last_seen_at: datetime | None
    gone_at: datetime | None = Field(description="When this portal was seen not to have it any more.")
    gone_reason: str | None
    merged_at: datetime | None = Field(description="When it was merged into this home; null: it showed it first.")
    reason: str | None = Field(description="Why it was taken for the same home.")
    evidence: dict[str, Any] | None = Field(description="What was measured.")


async def sources_of(db: Database, listing_key: str) -> list[SourceReport]:
    """The sources of a home, the first one first."""
    rows = await db.fetch(_SOURCES, {"key": listing_key})
    times = ("first_seen_at", "last_seen_at", "gone_at", "merged_at")
    return [
        SourceReport(**{**row, **{name: at(row[name]) for name in times}, "evidence": loads(row["evidence"])})
        for row in rows
    ]


async def merged_source(db: Database, listing_key: str, source: str) -> SourceReport:
    """A source that was merged into this home. Raises `NotFound` if there is none of this name, or it was the first."""
    for each in await sources_of(db, listing_key):
        if source in (each.source_key, each.source_id) and each.source_key != listing_key:
            return each
    raise NotFound(f"No source {source!r} was merged into this listing. `forager listings why` shows its sources.")
