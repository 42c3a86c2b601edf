"""What a person asks for: pages, a sitemap, or a site whose links are followed. Pure."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic import model_validator as validator_of_model

from forager.core.durations import in_seconds
from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.table import TableRow
from forager.extract.canonical import canonical_url
from forager.pipelines.products.recrawl import DAY

MOST_URLS = 100_000
MOST_IN_PART = 10_000
"""Pages of one part of a list."""
LONGEST_URL = 2_048
MOST_PAGES = 10_000_000
MOST_DEPTH = 20

PageUrl = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_URL),
    AfterValidator(canonical_url),
    WithJsonSchema({"type": "string", "format": "uri", "maxLength": LONGEST_URL, "pattern": "^https?://"}),
]
"""Stored in its one spelling: the same page under two addresses is one page."""


def _sensible(seconds: int) -> int:
    if not 60 <= seconds <= 366 * DAY:
        raise ValueError("must be at least a minute and at most 366 days; write it with its unit, such as 6h or 1d")
    return seconds


Frequency = Annotated[
    int,
    BeforeValidator(in_seconds),
    AfterValidator(_sensible),
    WithJsonSchema({"type": "integer", "minimum": 60, "maximum": 366 * DAY}),
]
"""Seconds between two crawls of a page; a text such as `6h` is read."""


class StoredPage(BaseModel):
    """What is stored of a page that is crawled again: what was asked for it, and what its last visits found."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    priority: int = Field(default=5, ge=1, le=10)
    frequency: int | None = Field(default=None, ge=60, le=366 * DAY)
    recrawl: bool = True
    max_retries: int = Field(default=3, ge=0, le=10)
    render: Render = "http"
    misses: int = Field(default=0, ge=0)
    product_url: str | None = Field(default=None, max_length=LONGEST_URL)


class PageOfJob(BaseModel):
    """A page with options of its own; what it leaves out is as for the whole job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: PageUrl
    priority: int | None = Field(default=None, ge=1, le=10, description="Orders the pages of the job; 1 is first.")
    scheduled_at: AwareDatetime | None = Field(default=None, description="Not before this moment.")
    frequency: Frequency | None = Field(default=None, description="Time between two crawls: seconds, or `6h`.")
    max_retries: int | None = Field(default=None, ge=0, le=10)

    def own(self) -> dict[str, Any]:
        """What it says beside its URL and its time."""
        return self.model_dump(include={"priority", "frequency", "max_retries"}, exclude_none=True)


class CrawlOptions(BaseModel):
    """How the pages of a job are crawled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    follow: bool = Field(
        default=False, description="Follow the links of pages that are not products, on the same host."
    )
    depth: int = Field(default=5, ge=0, le=MOST_DEPTH, description="How many links deep, with `follow`.")
    max_pages: int | None = Field(
        default=None, ge=1, le=MOST_PAGES, description="Never fetch more pages than this; the rest is skipped."
    )
    render: Render = Field(
        default="http", description="http, browser, or auto: a browser only for pages that need one."
    )
    priority: int = Field(default=5, ge=1, le=10, description="1 is the highest, 10 the lowest.")
    scheduled_at: AwareDatetime | None = Field(default=None, description="Not before this moment.")
    recrawl: bool = Field(default=True, description="Crawl the pages again and again, as `frequency` says.")
    frequency: Frequency | None = Field(
        default=None,
        description="Time between two crawls of a page: seconds, or a text such as `6h`; without it the domain's own, "
        "or a day.",
        examples=["6h"],
    )
    max_retries: int = Field(default=3, ge=0, le=10, description="Retries of a page that cannot be fetched.")


class CrawlJob(CrawlOptions):
    """Pages to crawl. Give `urls`, `pages`, `sitemap`, or several of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"urls": ["https://shop.example/p/oak-table-7"], "priority": 1},
                {"sitemap": "https://shop.example/", "frequency": 21_600},
                {"urls": ["https://shop.example/c/tables"], "follow": True, "depth": 3, "max_pages": 500},
                {"pages": [{"url": "https://shop.example/p/oak-table-7", "priority": 1, "frequency": "6h"}]},
            ]
        },
    )

    urls: tuple[PageUrl, ...] = Field(default=(), max_length=MOST_URLS, description="Pages; each is crawled once.")
    pages: tuple[PageOfJob, ...] = Field(
        default=(), max_length=MOST_URLS, description="Pages with a priority, time, frequency or retries of their own."
    )
    sitemap: PageUrl | None = Field(
        default=None,
        description="A sitemap or sitemap index (XML, gzip or text), or a site whose robots.txt names its sitemaps.",
    )
    domain_frequencies: dict[str, int] = Field(
        default_factory=dict,
        max_length=1_000,
        description="By host: seconds between two crawls, for pages without a `frequency`. The admin route fills it.",
    )
    stored: dict[PageUrl, StoredPage] = Field(
        default_factory=dict,
        max_length=MOST_URLS,
        description="By URL: what is stored of a page and stays as it is. The route for recrawls fills it.",
    )

    @validator_of_model(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.urls and not self.pages and self.sitemap is None:
            raise ValueError("give `urls`, `pages` or `sitemap`")
        return self

    def every_url(self) -> tuple[str, ...]:
        """The URLs of its pages, each once, those without options of their own first."""
        return tuple(dict.fromkeys((*self.urls, *(page.url for page in self.pages))))

    def asked(self, url: str) -> dict[str, Any]:
        """What the task for a URL inherits from this job; pages that are found there inherit it in turn."""
        asked = {
            "usual_frequency": self.domain_frequencies.get(host_of(url)),
            "priority": self.priority,
            "frequency": self.frequency,
            "recrawl": self.recrawl,
            "max_retries": self.max_retries,
            "render": self.render,
            "depth": self.depth if self.follow else None,
        }
        stored = self.stored.get(url)
        return asked if stored is None else asked | dict(stored)


class SqlRequest(TableRow):
    """A request that was made in SQL, by an INSERT into `crawl_tasks` or a switch of `domains.is_active`. The triggers
    of the views write it; the service carries it out and removes it."""

    table: ClassVar[str] = "sql_inbox"
    key: ClassVar[tuple[str, ...]] = ("id",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    id: int
    kind: str
    """crawl or switch."""
    body: dict[str, Any]
    batch: str | None = None
    """The idempotency key of the job that it is being submitted with."""
    error: str | None = None
    """Why it was refused. The view shows it as a failed task."""
    created_at: datetime | None = None


def is_site(url: str) -> bool:
    """Whether a URL names a whole site, not a file of it."""
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query
