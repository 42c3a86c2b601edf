"""The parameters of a crawl: pages, a sitemap, or a site whose links are followed. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic import model_validator as validator_of_model

from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.pipeline import JobLimits, Parts
from forager.core.recheck import Interval
from forager.core.table import TableRow
from forager.core.task import Plan
from forager.extract.text.urls import canonical_url
from forager.pipelines.products.records import DAY
from forager.pipelines.products.tasks import Crawl

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


class StoredPage(BaseModel):
    """Stored values of a page that is crawled again: its options, and the results of its last visits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    priority: int = Field(default=5, ge=1, le=10)
    frequency: int | None = Field(default=None, ge=60, le=366 * DAY)
    recrawl: bool = True
    max_retries: int = Field(default=3, ge=0, le=10)
    render: Render = "http"
    misses: int = Field(default=0, ge=0)
    product_url: str | None = Field(default=None, max_length=LONGEST_URL)


class PageOfJob(BaseModel):
    """A page with options of its own. An option that it leaves out has the value of the whole job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: PageUrl
    priority: int | None = Field(default=None, ge=1, le=10, description="Orders the pages of the job; 1 is first.")
    scheduled_at: AwareDatetime | None = Field(default=None, description="Not before this moment.")
    frequency: Interval | None = Field(default=None, description="Time between two crawls: seconds, or `6h`.")
    max_retries: int | None = Field(default=None, ge=0, le=10)

    def own(self) -> dict[str, Any]:
        """Return the values other than URL and time."""
        return self.model_dump(include={"priority", "frequency", "max_retries"}, exclude_none=True)


class CrawlOptions(BaseModel):
    """Options for crawling the pages of a job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    follow: bool = Field(
        default=False, description="Follow the links of pages that are not products, on the same host."
    )
    depth: int = Field(default=5, ge=0, le=MOST_DEPTH, description="Maximum depth of links, with `follow`.")
    max_pages: int | None = Field(
        default=None, ge=1, le=MOST_PAGES, description="Never fetch more pages than this; the rest is skipped."
    )
    render: Render = Field(
        default="http", description="http, browser, or auto: a browser only for pages that need one."
    )
    priority: int = Field(default=5, ge=1, le=10, description="1 is the highest, 10 the lowest.")
    scheduled_at: AwareDatetime | None = Field(default=None, description="Not before this moment.")
    recrawl: bool = Field(default=True, description="Crawl the pages repeatedly, at the interval `frequency`.")
    frequency: Interval | None = Field(
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
        description="Seconds between two crawls by host, for pages without a `frequency`. The frequencies that are "
        "set for domains are filled in.",
    )
    stored: dict[PageUrl, StoredPage] = Field(
        default_factory=dict,
        max_length=MOST_URLS,
        description="Stored values of pages, by URL. The route for recrawls fills it.",
    )

    @validator_of_model(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.urls and not self.pages and self.sitemap is None:
            raise ValueError("give `urls`, `pages` or `sitemap`")
        return self

    def every_url(self) -> tuple[str, ...]:
        """Return the URLs of its pages, each once, those without options of their own first."""
        return tuple(dict.fromkeys((*self.urls, *(page.url for page in self.pages))))

    def addresses(self) -> tuple[str, ...]:
        """Return the URLs of its pages and its sitemap."""
        return (*self.every_url(), *(() if self.sitemap is None else (self.sitemap,)))

    def hosts(self) -> set[str]:
        return {host_of(url) for url in self.addresses()}

    def asked(self, url: str) -> dict[str, Any]:
        """Return the options that the task for a URL inherits from this job; pages found there inherit them in turn."""
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
    """Return whether a URL names a whole site, not a file of it."""
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query


# Lists of pages of any size: the job first, then its pages in parts, so that no row and no request holds them all.


USUAL = 5
"""The priority of a job that names none."""


class CrawlJobInParts(CrawlOptions):
    """A crawl whose pages follow."""

    source: str | None = Field(
        default=None, max_length=200, description="Name of the list that the pages come from. Lists of jobs show it."
    )


def plan_pages(job: CrawlJob) -> Iterator[Plan]:
    """Yield one task per page. If a URL is in the list and has options of its own, these hold."""
    own = {page.url: page for page in job.pages}
    for url in job.every_url():
        page = own.get(url)
        crawl = Crawl(url=url, **(job.asked(url) | (page.own() if page else {})))
        rank = job.priority if page is None or page.priority is None else page.priority
        due = job.scheduled_at if page is None or page.scheduled_at is None else page.scheduled_at
        yield Plan(crawl, rank=rank, due=due, retries=crawl.max_retries)


def limits(job: CrawlOptions) -> JobLimits:
    """Jobs of a higher priority come first in a domain's lane."""
    return JobLimits(max_cost=job.max_pages, turn=turn_of(job.priority))


def turn_of(priority: int) -> int:
    """The usual priority is the fair turn of all jobs; a higher one is before them, a lower one behind, for a while."""
    return priority - USUAL


PARTS = Parts(CrawlJobInParts, lambda part, _: plan_pages(part), limits)
"""A page is known by its URL, wherever in the list it stands."""
