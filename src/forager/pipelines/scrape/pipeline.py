"""Pages on demand: given a URL and its page type, returns the page's fields.

The pipeline as a value. Settings are arguments of `build`; nothing here reads a setting.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from forager.core.errors import Retry
from forager.core.pipeline import BULK_FROM, JobLimits, Pipeline, step
from forager.core.task import Plan
from forager.pipelines.scrape.extractor import Extractor
from forager.pipelines.scrape.job import PARTS, Result, ScrapeJob, ScrapeTask, StoredSchema, check, plan_targets
from forager.pipelines.scrape.reasons import REASONS
from forager.pipelines.scrape.steps import Scraper

NAME = "scrape"
MOST_QUEUED = 500
RETRY = Retry(2, first=2.0, cap=10.0)
"""A caller waits for the answer, so a server error is retried soon and not for long."""


PATIENCE = 300.0
"""Seconds that a page waits in vain (no proxy, no browser, too many requests) before it fails, because a caller
waits."""


def plan(job: ScrapeJob) -> Iterator[Plan]:
    """Return one task per target, in their order."""
    return plan_targets(job.targets, 0, max(3, len(str(len(job.targets) - 1))))


def limits(job: ScrapeJob, *, most_queued: int = MOST_QUEUED) -> JobLimits:
    """Serve a single page before all batches, and smaller batches before bigger ones. A bulk job's queue has no
    limit."""
    pages = len(job.targets)
    return JobLimits(turn=1 if job.single else 1 + pages, most_queued=most_queued if pages < BULK_FROM else None)


def build(
    extractors: Sequence[Extractor],
    *,
    navigation: float = 30.0,
    timeout: float = 60.0,
    most_queued: int = MOST_QUEUED,
    logins: bool = False,
    keep_logged_in: bool = False,
) -> Pipeline:
    known = {extractor.name: extractor for extractor in extractors}
    scraper = Scraper(known, navigation, timeout, logins, keep_logged_in)
    return Pipeline(
        name=NAME,
        params=ScrapeJob,
        plan=plan,
        steps=(
            step(
                ScrapeTask,
                scraper.scrape,
                timeout=timeout,
                retry=RETRY,
                when_open="fail",
                when_late="fail",
                patience=PATIENCE,
            ),
        ),
        records=(Result,),
        tables=(StoredSchema,),
        limits=partial(limits, most_queued=most_queued),
        check=partial(check, extractors=known),
        reasons=REASONS,
        parts=PARTS,
    )
