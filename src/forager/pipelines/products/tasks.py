"""The kinds of work that a crawl consists of."""

from typing import ClassVar

from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.pipeline import Aftermath, TaskEnd
from forager.core.recheck import Recheck, recheck
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from forager.extract.text.urls import url_hash
from forager.pipelines.products.records import MOST_CONFIRMED, CrawledPage

CATALOGUE = "catalogue"
"""The lane of work without requests to a site."""


class PageOptions(Task):
    """Options that a submission sets for its pages; a page found on another one inherits them."""

    priority: int = 5
    frequency: int | None = None
    """Seconds between two crawls; None keeps the stored value, or else the domain's."""
    usual_frequency: int | None = None
    """The domain's frequency, for pages without one of their own; None keeps the stored value, or else a day."""
    recrawl: bool = True
    max_retries: int | None = None
    render: Render = "http"
    depth: int | None = None
    """Remaining depth of links from here; None: links are not read."""


class Crawl(PageOptions):
    """One page: fetched, stored, parsed. Known by the hash of its canonical URL."""

    kind: ClassVar[str] = "products.crawl"

    url: str
    """Canonical."""
    # ── what is stored of the page already, in a recrawl ──
    etag: str | None = None
    last_modified: str | None = None
    """With `etag`, makes the request conditional: the site may answer that nothing has changed."""
    confirmed: int = 0
    """Consecutive visits that confirmed it."""
    misses: int = 0
    """Visits in a row that found a soft 404."""
    product_url: str | None = None
    """The product that it showed: another URL's, if the page redirects."""

    def key(self) -> str:
        return url_hash(self.url)

    def lane(self) -> str:
        return host_of(self.url)


class Parse(Task):
    """A stored page that is to be parsed by itself: it is big, or its parser broke when it was fetched.

    It belongs to the domain's lane, because a stored page that is lost is fetched again.
    """

    kind: ClassVar[str] = "products.parse"
    blobs: ClassVar[tuple[str, ...]] = ("html",)

    url: str
    """The requested URL, canonical."""
    html: str

    def key(self) -> str:
        return url_hash(self.url)

    def lane(self) -> str:
        return host_of(self.url)


class Alert(Task):
    """An alert about a parser that is to be written into the change log."""

    kind: ClassVar[str] = "products.alert"

    domain: str
    parser: str
    parser_version: int
    field: str
    state: str
    rate: float
    mean: float
    pages: int

    def key(self) -> str:
        return f"{self.alert_key}/{self.state}"

    def lane(self) -> str:
        return CATALOGUE

    @property
    def alert_key(self) -> str:
        return f"{self.domain}/{self.parser}/{self.parser_version}/{self.field}"


class Sitemap(PageOptions):
    """One sitemap, or a part of it: a long one is handed over piece by piece."""

    kind: ClassVar[str] = "products.sitemap"
    blobs: ClassVar[tuple[str, ...]] = ("stored",)

    url: str
    start: int = 0
    """Start of this part, in bytes of the decompressed file."""
    level: int = 0
    """Number of sitemap indexes on the way here."""
    discover: bool = False
    """True if `url` is a site, whose robots.txt names its sitemaps."""
    stored: str | None = None
    """The file itself, if an earlier part has fetched it."""
    most: int | None = None
    """The job's `max_pages`: then no more addresses are handed over at once, and the rest waits behind their pages."""

    def key(self) -> str:
        return f"{self.url}#{self.start}" if self.start else self.url

    def lane(self) -> str:
        return host_of(self.url)


# The task of a page that is due, and the result of a failed crawl. Pure.


CONFIRMABLE = frozenset({"product", "unchanged"})
"""Only the page of a product is requested conditionally: a 304 for a soft 404 would confirm the wrong thing."""


RECRAWL = "recrawl"
"""The recheck that crawls pages again when their time has come. Each domain has a standing job of its own."""


def recrawl_rule() -> Recheck:
    return recheck(
        CrawledPage, due="next_crawl_at", task=crawl_again, name=RECRAWL, params={"recrawl": True}, by="domain"
    )


def recrawl_key(domain: str) -> str:
    """Return the idempotency key of a domain's standing job."""
    return recrawl_rule().job_key_of(domain)


def crawl_again(page: CrawledPage) -> Plan:
    """Return the recrawl of a page, with what is stored of it: the site may answer that nothing has changed.

    Every tenth visit fetches the whole page, whatever the site answers.
    """
    priority = page.priority or 5
    confirmed = page.confirmed or 0
    validated = page.outcome in CONFIRMABLE and confirmed < MOST_CONFIRMED
    crawl = Crawl(
        url=page.url,
        priority=priority,
        frequency=page.frequency,
        usual_frequency=page.usual_frequency,
        max_retries=page.max_retries,
        render=page.render or "http",
        etag=page.etag if validated and isinstance(page.etag, str) else None,
        last_modified=page.last_modified if validated and isinstance(page.last_modified, str) else None,
        confirmed=confirmed,
        misses=page.misses or 0,
        product_url=page.product_url,
    )
    return Plan(crawl, rank=priority, retries=page.max_retries)


def crawl_ended(task: Crawl, end: TaskEnd) -> Aftermath | None:
    """Make a page that was crawled before due again, sooner than usual, if it could not be crawled now."""
    if end.state is TaskState.COMPLETED or not task.recrawl:
        return None
    page = CrawledPage(url_hash=task.key(), url=task.url, domain=task.lane(), failed_at=end.at)
    return Aftermath(updates=[page])
