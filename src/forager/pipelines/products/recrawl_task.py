"""The task of a page whose time has come, and what follows from a crawl that failed. Pure."""

from forager.core.ends import Aftermath, TaskEnd
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.core.watch import Watch, watch
from forager.pipelines.products.records import Page
from forager.pipelines.products.recrawl import MOST_CONFIRMED
from forager.pipelines.products.tasks import Crawl

CONFIRMABLE = frozenset({"product", "unchanged"})
"""Only the page of a product is asked for conditionally: a 304 for a soft 404 would confirm the wrong thing."""


RECRAWL = "recrawl"
"""The watch that crawls pages again when their time has come. Each domain has a standing job of its own."""


def recrawl_watch() -> Watch:
    return watch(Page, due="next_crawl_at", task=crawl_again, name=RECRAWL, params={"recrawl": True}, by="domain")


def recrawl_key(domain: str) -> str:
    """The idempotency key of a domain's standing job."""
    return recrawl_watch().job_key_of(domain)


def crawl_again(page: Page) -> Plan:
    """The recrawl of a page, with what is stored of it: the site may answer that nothing has changed.

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
    """A page that was crawled before and could not be crawled now is due again, sooner than usual."""
    if end.state is TaskState.COMPLETED or not task.recrawl:
        return None
    page = Page(url_hash=task.key(), url=task.url, domain=task.lane(), failed_at=end.at)
    return Aftermath(updates=[page])
