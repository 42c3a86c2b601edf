"""An e-commerce crawler that keeps its catalogue current.

The pipeline as a value. What comes from settings is an argument of `build`; nothing here reads a setting.
"""

from collections.abc import Iterator

from forager.core.pipeline import Lane, Pipeline, Retry, step
from forager.core.task import Plan
from forager.core.watch import Watch, watch
from forager.extract.products.parser import Parsers
from forager.pipelines.products.answers import REASONS
from forager.pipelines.products.audit import Audit
from forager.pipelines.products.health import ParserAlert, ParserHealth, Quarantine
from forager.pipelines.products.job import CrawlJob, SqlRequest, is_site
from forager.pipelines.products.parser_trial import ParserTrial
from forager.pipelines.products.parts import PARTS, USUAL, limits, plan_pages
from forager.pipelines.products.pictures import Downloads, FetchPicture, Picture, Pictures, pictures_of
from forager.pipelines.products.records import Page, Product
from forager.pipelines.products.recrawl_task import crawl_ended, recrawl_watch
from forager.pipelines.products.steps import Crawler
from forager.pipelines.products.tasks import CATALOGUE, Alert, Crawl, Parse, Sitemap

NAME = "products"
RETRY = Retry(3, first=5.0)
"""After 5, 10 and 20 seconds."""
EVERY_SHOP = Lane("*", rate=1, concurrency=5, site=True, robots=True, proxied=True)
"""A shop without rules of its own: one page a second."""
UPKEEP = Lane(CATALOGUE, rate=None)
PICTURES = "pictures"
"""The watch that downloads the pictures of products whose list has changed."""
PAGE = 1
"""What one page costs of a job's budget."""


def plan(job: CrawlJob) -> Iterator[Plan]:
    """One task per page, and one for the sitemap."""
    if job.sitemap is not None:
        asked = job.asked(job.sitemap)
        sitemap = Sitemap(url=job.sitemap, discover=is_site(job.sitemap), most=job.max_pages, **asked)
        yield Plan(sitemap, rank=0, due=job.scheduled_at, retries=job.max_retries)
    yield from plan_pages(job)


def priority_of(turn: int, asked: int) -> int:
    """The priority that a job's turn stands for. A lower one than usual has aged, so it is shown as it was asked."""
    return turn + USUAL if turn < 0 or asked < USUAL else asked


def build(
    parsers: Parsers,
    *,
    timeout: float = 30.0,
    retry: Retry = RETRY,
    lane: Lane = EVERY_SHOP,
    downloads: Downloads | None = None,
    shadow: float = 1.0,
) -> Pipeline:
    """The pipeline with these parsers, and this lane for shops without rules of their own. `shadow`: the share of pages
    on which candidate parsers run as well."""
    crawler = Crawler(parsers, timeout, shadow)
    downloads = downloads or Downloads()
    return Pipeline(
        name=NAME,
        params=CrawlJob,
        plan=plan,
        steps=(
            step(
                Crawl,
                crawler.crawl,
                price=PAGE,
                timeout=timeout + 30.0,
                retry=retry,
                one_open=True,
                attempts=True,
                on_end=crawl_ended,
            ),
            step(Parse, crawler.parse, timeout=timeout + 30.0, retry=retry),
            step(Pictures, downloads.plan),
            step(FetchPicture, downloads.fetch, timeout=timeout + 30.0, retry=retry),
            step(Alert, crawler.alert),
            # A sitemap costs nothing, but is read only while the job may still fetch a page.
            step(Sitemap, crawler.sitemap, price=PAGE, timeout=timeout + 60.0, retry=retry, attempts=True),
        ),
        records=(Page, Product, Picture, ParserAlert),
        tables=(ParserHealth, ParserTrial, Quarantine, Audit, SqlRequest),
        lanes=(lane, UPKEEP),
        limits=limits,
        reasons=REASONS,
        parts=PARTS,
        watches=tuple(_watches(downloads)),
    )


def _watches(downloads: Downloads) -> Iterator[Watch]:
    yield recrawl_watch()
    if downloads.most:
        yield watch(Product, due="pictures_due_at", task=pictures_of, name=PICTURES, params={"pictures": True})
