"""Any site, mapped or crawled: the pipeline as a value."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from forager.core.errors import Retry
from forager.core.pipeline import JobEnd, Pipeline, app_step
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.sites.answers import REASONS
from forager.pipelines.sites.job import SiteJob, limits
from forager.pipelines.sites.records import SiteAddress, SiteCrawl, SitePage
from forager.pipelines.sites.tasks import ReadSitemap, StartCrawl, VisitPage, again_rule, visit_ended

NAME = "sites"
PAGE = 1
"""Cost of one page in a crawl's budget."""
TIMEOUT = 30.0
RETRY = Retry(3, first=5.0, cap=300.0)


def plan(job: SiteJob) -> Iterator[Plan]:
    """Yield one task, which finds the others."""
    crawl = job.crawl or "0"
    yield Plan(StartCrawl(crawl=crawl, url=job.url, options=job.model_dump(mode="json", exclude={"crawl"})))


def crawl_ended(params: Any, end: JobEnd) -> Sequence[Effect]:
    """Write the end of the job to the row of the crawl."""
    crawl = params.get("crawl") if isinstance(params, Mapping) else getattr(params, "crawl", None)
    if crawl is None:
        return []
    told = {"job": str(end.job), "state": end.state.value, "ended_at": end.at}
    return [Effect(SiteCrawl, {"crawl": crawl}, set=told)]


def build() -> Pipeline:
    return Pipeline(
        name=NAME,
        params=SiteJob,
        plan=plan,
        steps=(
            app_step(StartCrawl, price=PAGE, timeout=TIMEOUT + 30.0, retry=RETRY),
            app_step(ReadSitemap, price=PAGE, timeout=TIMEOUT + 60.0, retry=RETRY),
            app_step(VisitPage, price=PAGE, timeout=TIMEOUT + 30.0, retry=RETRY, on_end=visit_ended),
        ),
        records=(SitePage, SiteAddress),
        tables=(SiteCrawl,),
        limits=limits,
        reasons=REASONS,
        rechecks=(again_rule(),),
        on_job_end=crawl_ended,
    )
