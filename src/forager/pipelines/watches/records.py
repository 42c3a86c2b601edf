"""Storage of watches: a row for each watch, and a record of its page as last seen."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from forager.core.record import Clear, Index, Record
from forager.core.table import TableRow


class PageWatch(TableRow):
    """A watch: the page, the part of it to compare, and the interval."""

    table: ClassVar[str] = "page_watches"
    key: ClassVar[tuple[str, ...]] = ("name",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    name: str
    url: str
    mode: str
    """text, select or schema."""
    selector: str | None = None
    page_schema: dict[str, Any] | None = None
    every: int
    """Seconds between two checks."""
    render: str = "http"
    screenshots: bool = False
    ignored: list[str]
    """dates, counters."""
    paused: bool = False
    created_at: datetime | None = None
    leftover_at: datetime | None = None
    """Time of the last check by a removed watch of this name, as its page has it: the page is then not of this watch.
    Compared for equality, so that it does not matter whose clock it was; None if there was no such page."""
    asked_at: datetime | None = None
    """Time at which a check was wanted last by a user, or by `wiring.check_forgotten`."""
    job: str | None = None
    """The job of that check; None until it is created."""
    failed_at: datetime | None = None
    """Time of the last check that could not read the page …"""
    error: str | None = None
    """… and why. They count until the page has been read once; after that its record has them."""


class WatchedPage(Record):
    """A watched page as it was last seen. Its changes are the observations that differ."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "watch": "oak-table",
                    "url": "https://shop.example/oak-table",
                    "title": "Oak table",
                    "fields": {"price": 45},
                    "summary": "price: 60 → 45",
                }
            ]
        }
    )

    kind: ClassVar[str] = "watched_page"
    table: ClassVar[str] = "watched_pages"
    key_field: ClassVar[str] = "watch"
    indexes: ClassVar[tuple[Index, ...]] = (Index(("next_check_at",), where="next_check_at IS NOT NULL"),)
    quiet: ClassVar[frozenset[str]] = frozenset(
        "seen_text noise status every checks checked_at failed_at error screenshot screenshot_before"
        " next_check_at".split()
    )
    blobs: ClassVar[tuple[str, ...]] = ("screenshot", "screenshot_before")

    watch: str
    url: str
    title: str | None = None
    text: str | Clear | None = None
    """The watched text, as of the last change."""
    fields: dict[str, Any] | Clear | None = None
    """With a schema: the values that were found."""
    sources: dict[str, Any] | Clear | None = None
    summary: str | Clear | None = None
    """The last change, in one line."""
    difference: dict[str, Any] | Clear | None = None

    # ── about the last check ──
    seen_text: str | Clear | None = None
    """The text at the last check, noise included."""
    noise: dict[str, Any] | None = None
    """Checks in a row in which each place has differed."""
    status: int | None = None
    every: int | None = None
    checks: int | None = None
    checked_at: datetime | None = None
    failed_at: datetime | Clear | None = None
    error: str | Clear | None = None
    """Why the last check found nothing."""
    screenshot: str | Clear | None = None
    screenshot_before: str | Clear | None = None
    next_check_at: datetime | Clear | None = None
    """Derived from the time of the last check."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        """Plan the next check. After a failure it comes after the usual time as well."""
        last = self.failed_at if isinstance(self.failed_at, datetime) else self.checked_at
        if not self.every or last is None:
            return {"next_check_at": None}
        return {"next_check_at": last + timedelta(seconds=self.every)}
