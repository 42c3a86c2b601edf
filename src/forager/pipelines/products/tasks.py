"""The kinds of work that a crawl consists of."""

from typing import ClassVar

from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.task import Task
from forager.extract.canonical import url_hash

CATALOGUE = "catalogue"
"""The lane of work that asks no site."""


class Asked(Task):
    """What a submission says about its pages; a page that is found on another one inherits it."""

    priority: int = 5
    frequency: int | None = None
    """Seconds between two crawls; None: as it was, or as the domain has it."""
    usual_frequency: int | None = None
    """The domain's own, for pages without one of theirs; None: as it was, or a day."""
    recrawl: bool = True
    max_retries: int | None = None
    render: Render = "http"
    depth: int | None = None
    """How many links deep the crawl may go on from here; None: links are not read at all."""


class Crawl(Asked):
    """One page: fetched, stored, parsed. Known by the hash of its canonical URL."""

    kind: ClassVar[str] = "products.crawl"

    url: str
    """Canonical."""
    # ── what is stored of the page already, in a recrawl ──
    etag: str | None = None
    last_modified: str | None = None
    """The site may answer that nothing has changed since."""
    confirmed: int = 0
    """How often in a row it did."""
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
    """Canonical; the one that was asked for."""
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


class Sitemap(Asked):
    """One sitemap, or a part of it: a long one is handed over piece by piece."""

    kind: ClassVar[str] = "products.sitemap"
    blobs: ClassVar[tuple[str, ...]] = ("stored",)

    url: str
    start: int = 0
    """Where this part begins, in bytes of the decompressed file."""
    level: int = 0
    """How many sitemap indexes led here."""
    discover: bool = False
    """Whether `url` is a site, whose robots.txt names its sitemaps."""
    stored: str | None = None
    """The file itself, if an earlier part has fetched it."""
    most: int | None = None
    """The job's `max_pages`: then no more addresses are handed over at once, and the rest waits behind their pages."""

    def key(self) -> str:
        return f"{self.url}#{self.start}" if self.start else self.url

    def lane(self) -> str:
        return host_of(self.url)
