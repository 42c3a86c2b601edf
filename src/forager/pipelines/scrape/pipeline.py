"""Pages on demand: given a URL and its page type, returns the page's fields.

The pipeline as a value. Settings are arguments of `build`; nothing here reads a setting.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from forager.core.errors import Retry
from forager.core.pipeline import BULK_FROM, JobLimits, Lane, Pipeline, app_step, step
from forager.core.task import Plan
from forager.pipelines.scrape.describe import CALLS, LanguageModel
from forager.pipelines.scrape.extractor import Extractor
from forager.pipelines.scrape.job import (
    LLM_LANE,
    PARTS,
    STORED_LANE,
    DescribedAnswer,
    DescribeTask,
    Result,
    ScrapeJob,
    ScrapeTask,
    StoredSchema,
    check,
    micro_usd,
    plan_targets,
)
from forager.pipelines.scrape.reasons import REASONS
from forager.pipelines.scrape.steps import Scraper

NAME = "scrape"
MOST_QUEUED = 500
RETRY = Retry(2, first=2.0, cap=10.0)
"""A caller waits for the answer, so a server error is retried soon and not for long."""


PATIENCE = 300.0
"""Seconds that a page may wait (no proxy, no browser, too many requests) before it fails: a caller is waiting."""


def plan(job: ScrapeJob) -> Iterator[Plan]:
    """Return one task per target, in their order."""
    return plan_targets(job.targets, 0, max(3, len(str(len(job.targets) - 1))))


def limits(job: ScrapeJob, *, most_queued: int = MOST_QUEUED) -> JobLimits:
    """Serve a single page before all batches, and smaller batches before bigger ones. A bulk job's queue has no
    limit."""
    pages = len(job.targets)
    return JobLimits(
        max_cost=micro_usd(job.max_usd),
        turn=1 if job.single else 1 + pages,
        most_queued=most_queued if pages < BULK_FROM else None,
    )


LANE = Lane(LLM_LANE, rate=10, burst=10, concurrency=8, retry=Retry(3, first=2.0, cap=60.0))
"""The language model. Its units are millionths of a dollar."""
STORED = Lane(STORED_LANE, rate=None, concurrency=64, site=True, delay=(0.0, 0.0))
"""Reads stored pages, which needs no request."""
NO_MODEL = "no language model is configured; set FORAGER_LLM_URL, FORAGER_LLM_MODEL and the prices of its tokens"


def build(
    extractors: Sequence[Extractor],
    *,
    navigation: float = 30.0,
    timeout: float = 60.0,
    most_queued: int = MOST_QUEUED,
    logins: bool = False,
    keep_logged_in: bool = False,
    model: LanguageModel | None = None,
    no_model: str = NO_MODEL,
    lane: Lane = LANE,
    scripts: bool = False,
) -> Pipeline:
    """Build the pipeline. Without a `model`, jobs with described fields are refused with the text `no_model`."""
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
            app_step(
                DescribeTask,
                price=model.worst_page if model else 0,
                timeout=CALLS * (model.timeout if model else 60.0) + 30.0,
                patience=PATIENCE,
            ),
        ),
        records=(Result,),
        lanes=(lane, STORED),
        tables=(StoredSchema, DescribedAnswer),
        limits=partial(limits, most_queued=most_queued),
        check=partial(check, extractors=known, no_model=None if model else no_model, scripts=scripts),
        reasons=REASONS,
        parts=PARTS,
    )
