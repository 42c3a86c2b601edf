"""An e-commerce crawler that keeps its catalogue current.

The pipeline as a value. What comes from settings is an argument of `build`; nothing here reads a setting.
"""

from collections.abc import Iterator

from forager.core.errors import Retry
from forager.core.pipeline import Lane, Pipeline, app_step, step
from forager.core.recheck import Recheck, recheck
from forager.core.task import Plan
from forager.extract.products.parser import Parsers
from forager.pipelines.products.health import Audit, ParserAlert, ParserHealth, Quarantine
from forager.pipelines.products.job import PARTS, USUAL, CrawlJob, SqlRequest, is_site, limits, plan_pages
from forager.pipelines.products.page_outcome import REASONS
from forager.pipelines.products.parser_trial import ParserTrial
from forager.pipelines.products.pictures import Downloads, FetchPicture, Picture, Pictures, pictures_of
from forager.pipelines.products.records import CrawledPage, Product
from forager.pipelines.products.steps import Crawler
from forager.pipelines.products.tasks import CATALOGUE, Alert, Crawl, Parse, Sitemap, crawl_ended, recrawl_rule
from forager.pipelines.products.wrappers import SiteLook, Wrapper

NAME = "products"
RETRY = Retry(3, first=5.0)
"""After 5, 10 and 20 seconds."""
EVERY_SHOP = Lane("*", rate=1, concurrency=5, site=True, robots=True, proxied=True)
"""A shop without rules of its own: one page a second."""
UPKEEP = Lane(CATALOGUE, rate=None)
PICTURES = "pictures"
"""The recheck that downloads the pictures of products with a changed list."""
PAGE = 1
"""The cost of one page in a job's budget."""


def plan(job: CrawlJob) -> Iterator[Plan]:
    """Yield one task per page, and one for the sitemap."""
    if job.sitemap is not None:
        asked = job.asked(job.sitemap)
        sitemap = Sitemap(url=job.sitemap, discover=is_site(job.sitemap), most=job.max_pages, **asked)
        yield Plan(sitemap, rank=0, due=job.scheduled_at, retries=job.max_retries)
    yield from plan_pages(job)


def priority_of(turn: int, asked: int) -> int:
    """Return the priority for a job's turn. A turn below the usual one comes from aging; then the requested priority is
    returned."""
    return turn + USUAL if turn < 0 or asked < USUAL else asked


def build(
    parsers: Parsers,
    *,
    timeout: float = 30.0,
    retry: Retry = RETRY,
    lane: Lane = EVERY_SHOP,
    downloads: Downloads | None = None,
) -> Pipeline:
    """Return the pipeline with these parsers, and this lane for shops without rules of their own. Its pages are read by
    app steps, because the wrappers of a shop are in the store."""
    crawler = Crawler(parsers, timeout)
    downloads = downloads or Downloads()
    return Pipeline(
        name=NAME,
        params=CrawlJob,
        plan=plan,
        steps=(
            app_step(
                Crawl,
                price=PAGE,
                timeout=timeout + 30.0,
                retry=retry,
                one_open=True,
                attempts=True,
                on_end=crawl_ended,
            ),
            app_step(Parse, timeout=timeout + 30.0, retry=retry),
            step(Pictures, downloads.plan),
            step(FetchPicture, downloads.fetch, timeout=timeout + 30.0, retry=retry),
            step(Alert, crawler.alert),
            # A sitemap costs nothing, but is read only while the job may still fetch a page.
            step(Sitemap, crawler.sitemap, price=PAGE, timeout=timeout + 60.0, retry=retry, attempts=True),
        ),
        records=(CrawledPage, Product, Picture, ParserAlert),
        tables=(ParserHealth, ParserTrial, Quarantine, Audit, SqlRequest, Wrapper, SiteLook),
        lanes=(lane, UPKEEP),
        limits=limits,
        reasons=REASONS,
        parts=PARTS,
        rechecks=tuple(_rechecks(downloads)),
    )


def _rechecks(downloads: Downloads) -> Iterator[Recheck]:
    yield recrawl_rule()
    if downloads.most:
        yield recheck(Product, due="pictures_due_at", task=pictures_of, name=PICTURES, params={"pictures": True})
