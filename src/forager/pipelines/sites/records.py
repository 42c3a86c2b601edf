"""Records of sites: a page per URL with its content, the addresses found by a map, and a row for each crawl."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from forager.core.record import Clear, Index, Record
from forager.core.table import TableRow

DAY = 86_400
FACTOR = 8
"""The interval of a page stays between frequency / 8 and frequency × 8."""
MOST_CONFIRMED = 9
"""304s in a row after which a page is fetched whole: some sites answer 304 for ever."""


def next_interval(frequency: int, interval: int, *, changed: bool) -> int:
    """Seconds until the next visit: half as long after a change, half as long again without one."""
    wanted = interval / 2 if changed else interval * 1.5
    return max(1, round(min(max(wanted, frequency / FACTOR), frequency * FACTOR)))


class SitePage(Record):
    """A page of a site as it was last seen. Known by the hash of its address."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url_hash": "8c1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
                    "url": "https://docs.example/guide/start",
                    "site": "docs.example",
                    "title": "Getting started",
                    "content": "# Getting started\n\nInstall it, then run it.",
                    "form": "markdown",
                    "language": "en",
                    "page_kind": "article",
                }
            ]
        }
    )

    kind: ClassVar[str] = "site_page"
    table: ClassVar[str] = "site_pages"
    key_field: ClassVar[str] = "url_hash"
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("site", "id")),
        Index(("next_visit_at", "id"), where="next_visit_at IS NOT NULL"),
    )
    quiet: ClassVar[frozenset[str]] = frozenset(
        "links links_out links_in status depth bytes text_print crawl frequency visited_at etag last_modified confirmed"
        " failed_at visit_interval next_visit_at".split()
    )

    url_hash: str
    url: str
    site: str
    """The host that the crawl began at; with subdomains, pages of other hosts belong to it as well."""
    title: str | None = None
    content: str | Clear | None = None
    form: str | None = None
    """markdown, text, html or fields."""
    fields: dict[str, Any] | Clear | None = None
    """With the form `fields`: the values of the schema."""
    sources: dict[str, Any] | Clear | None = None
    """Maps a field to the source and the confidence of its value."""
    language: str | None = None
    page_kind: str | None = None
    content_hash: str | None = None
    duplicate_of: str | Clear | None = None
    """The page that this one is a near-duplicate of, or that it declares as its canonical address."""

    # ── about the last visit ──
    links: list[str] | None = None
    links_out: int | None = None
    links_in: int | None = None
    """Pages of the site that link to this one, counted after the crawl."""
    status: int | None = None
    depth: int | None = None
    bytes: int | None = None
    text_print: str | None = None
    crawl: str | None = None
    frequency: int | None = None
    """Requested seconds between two visits; None: no repeated visits."""
    visited_at: datetime | None = None
    etag: str | Clear | None = None
    last_modified: str | Clear | None = None
    confirmed: int | None = None
    """304s in a row."""
    failed_at: datetime | Clear | None = None
    visit_interval: int | None = None
    """Derived. Adapted to how often the page changes."""
    next_visit_at: datetime | Clear | None = None
    """Derived from the two above."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        """Adapt the interval once per visit. After a failure the page comes back after a quarter of its frequency."""
        if not self.frequency or self.visited_at is None:
            return {"visit_interval": None, "next_visit_at": None}
        if isinstance(self.failed_at, datetime):
            return {"next_visit_at": self.failed_at + timedelta(seconds=max(60, self.frequency // 4))}
        held = before.visit_interval if before is not None and before.frequency == self.frequency else None
        interval = held or self.frequency
        if before is not None and held is not None and before.visited_at != self.visited_at:
            interval = next_interval(self.frequency, held, changed=before.content_hash != self.content_hash)
        return {"visit_interval": interval, "next_visit_at": self.visited_at + timedelta(seconds=interval)}


class SiteAddress(Record):
    """An address of a site that a map has found: in a sitemap, or as a link."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url_hash": "8c1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
                    "url": "https://docs.example/guide/start",
                    "site": "docs.example",
                    "source": "sitemap",
                }
            ]
        }
    )

    kind: ClassVar[str] = "site_address"
    table: ClassVar[str] = "site_addresses"
    key_field: ClassVar[str] = "url_hash"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("site", "id")),)
    quiet: ClassVar[frozenset[str]] = frozenset({"source"})

    url_hash: str
    url: str
    site: str
    source: str | None = None
    """sitemap, robots or link: where it was seen last."""


class SiteCrawl(TableRow):
    """One crawl or map of a site: its parameters and exact counters."""

    table: ClassVar[str] = "site_crawls"
    key: ClassVar[tuple[str, ...]] = ("crawl",)
    indexes: ClassVar[tuple[Index, ...]] = (Index(("site", "started_at")),)
    stamped: ClassVar[frozenset[str]] = frozenset({"started_at"})

    crawl: str
    site: str
    url: str
    mode: str
    """crawl or map."""
    options: dict[str, Any]
    pages: int = 0
    """Pages that were fetched."""
    bytes: int = 0
    unchanged: int = 0
    duplicates: int = 0
    trapped: int = 0
    """Addresses that were not visited because their pattern led nowhere."""
    addresses: int = 0
    job: str | None = None
    state: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    linked_at: datetime | None = None
    """Time at which the links of its pages were counted."""
