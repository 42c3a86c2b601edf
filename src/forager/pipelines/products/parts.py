"""Lists of pages of any size: the job first, then its pages in parts, so that no row and no request holds them all."""

from collections.abc import Iterator

from pydantic import Field

from forager.core.pipeline import JobLimits, Parts
from forager.core.task import Plan
from forager.pipelines.products.job import CrawlJob, CrawlOptions
from forager.pipelines.products.tasks import Crawl

USUAL = 5
"""The priority of a job that names none."""


class CrawlJobInParts(CrawlOptions):
    """A crawl whose pages follow."""

    source: str | None = Field(
        default=None, max_length=200, description="Name of the list that the pages come from. Lists of jobs show it."
    )


def plan_pages(job: CrawlJob) -> Iterator[Plan]:
    """One task per page. If a URL stands in the list and has options of its own, these hold."""
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
