"""The kinds of work that a crawl of a site consists of, and what follows when a page could not be fetched. Pure."""

from typing import Any, ClassVar

from forager.core.hosts import host_of
from forager.core.pipeline import Aftermath, TaskEnd
from forager.core.recheck import Recheck, recheck
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from forager.extract.text.urls import url_hash
from forager.pipelines.sites.addresses import rank_of
from forager.pipelines.sites.records import MOST_CONFIRMED, SitePage

AGAIN = "site_pages"
"""The recheck that visits pages again when their time has come. Each site has a standing job of its own."""


class StartCrawl(Task):
    """The first task of a crawl: creates its row, and reads the sitemaps named by robots.txt."""

    kind: ClassVar[str] = "sites.start"

    crawl: str
    url: str
    options: dict[str, Any]
    """The job, as JSON."""

    def key(self) -> str:
        return self.crawl

    def lane(self) -> str:
        return host_of(self.url)


class ReadSitemap(Task):
    """One sitemap, or a part of it: a long one is handed over piece by piece."""

    kind: ClassVar[str] = "sites.sitemap"
    blobs: ClassVar[tuple[str, ...]] = ("stored",)

    crawl: str
    url: str
    start: int = 0
    """Start of this part, in bytes of the decompressed file."""
    level: int = 0
    """Number of sitemap indexes that led here."""
    guessed: bool = False
    """True if no robots.txt names it: it need not exist."""
    stored: str | None = None
    """The file itself, if an earlier part has fetched it."""

    def key(self) -> str:
        return f"{self.url}#{self.start}" if self.start else self.url

    def lane(self) -> str:
        return host_of(self.url)


class VisitPage(Task):
    """One page of a site, known by the hash of its address."""

    kind: ClassVar[str] = "sites.page"

    crawl: str
    url: str
    depth: int = 0
    again: bool = False
    """A visit by itself, because the page's time has come: its links are not followed."""
    etag: str | None = None
    last_modified: str | None = None
    confirmed: int = 0

    def key(self) -> str:
        return url_hash(self.url)

    def lane(self) -> str:
        return host_of(self.url)


def page_plan(crawl: str, url: str, depth: int, penalty: int = 0) -> Plan:
    """Return the visit of an address that was found."""
    return Plan(VisitPage(crawl=crawl, url=url, depth=depth), rank=rank_of(url, depth) + penalty)


def visit_again(page: SitePage) -> Plan | None:
    """Return the next visit of a stored page: conditional, but for every tenth."""
    if page.crawl is None:
        return None
    confirmed = page.confirmed or 0
    valid = confirmed < MOST_CONFIRMED
    visit = VisitPage(
        crawl=page.crawl,
        url=page.url,
        depth=page.depth or 0,
        again=True,
        etag=page.etag if valid and isinstance(page.etag, str) else None,
        last_modified=page.last_modified if valid and isinstance(page.last_modified, str) else None,
        confirmed=confirmed,
    )
    return Plan(visit, rank=0)


def again_rule() -> Recheck:
    return recheck(SitePage, due="next_visit_at", task=visit_again, name=AGAIN, params={"again": True}, by="site")


def visit_ended(task: VisitPage, end: TaskEnd) -> Aftermath | None:
    """Make a page that is visited repeatedly due again sooner than usual if it could not be fetched."""
    if not task.again or end.state is TaskState.COMPLETED:
        return None
    page = SitePage(url_hash=task.key(), url=task.url, site=task.lane(), failed_at=end.at)
    return Aftermath(updates=[page.model_copy(update={"site": None})])
