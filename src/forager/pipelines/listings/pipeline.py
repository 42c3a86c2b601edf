"""Apartment listings that stay fresh, market by market: the pipeline as a value."""

from collections.abc import Iterator

from forager.core.pipeline import Lane, Pipeline, duty, step
from forager.core.task import Plan
from forager.core.watch import watch
from forager.pipelines.listings.apify import NETWORK, REFUSED, Apify
from forager.pipelines.listings.ends import scrape_ended, scrape_task_ended, verification_ended
from forager.pipelines.listings.job import ListingsJob
from forager.pipelines.listings.records import Listing, ListingSource
from forager.pipelines.listings.steps import RUN_ABORTED, RUN_FAILED, RUN_TIMED_OUT, RunSteps
from forager.pipelines.listings.tables import (
    DataSource,
    ListingMerge,
    ListingSplit,
    MarketConfig,
    MarketScrape,
    SourceRun,
)
from forager.pipelines.listings.tasks import (
    API_LANE,
    ITEMS_LANE,
    STARTS_LANE,
    UPKEEP_LANE,
    CancelScrapes,
    FailScrape,
    FinishScrape,
    PollRun,
    ReadItems,
    Retier,
    RunCost,
    ScrapeCity,
    SplitListing,
    Upkeep,
    VerifyListing,
)

NAME = "listings"
NO_TOKEN = "no_token"  # noqa: S105 - a reason, not a token
SCRAPING, MAINTENANCE = "scraping", "maintenance"
"""Queues: scrapes in the first; cleanup, verification and decay in the second."""
EVERY_SITE = Lane("*", rate=1, concurrency=5, site=True, robots=True, proxied=True, queue=MAINTENANCE)
"""A portal without rules of its own: one page a second."""


def plan(job: ListingsJob) -> Iterator[Plan]:
    if job.scrape is not None:
        yield Plan(ScrapeCity(scrape=job.scrape), due=job.scrape.start_at)
    elif job.retier is not None:
        yield Plan(Retier(market_id=job.retier.market_id, rate=job.retier.rate))
    elif job.split is not None:
        yield Plan(SplitListing(source_key=job.split.source_key, listing_key=job.split.listing_key))
    elif job.action in ("dispatch_scrapes", "decay_and_verify", "cleanup_maintenance"):
        yield Plan(Upkeep(action=job.action))


def verification(listing: Listing) -> Plan | None:
    """What a listing becomes whose confidence has fallen below 40."""
    if listing.source_url is None:
        return None
    task = VerifyListing(listing_key=listing.listing_key, market_id=listing.market_id, url=listing.source_url)
    return Plan(task)


def build(apify: Apify, *, page_timeout: float = 30.0, lane: Lane = EVERY_SITE) -> Pipeline:
    """The pipeline for this upstream, and this lane for portals without rules of their own."""
    runs, timeout = RunSteps(apify), apify.timeout + 30.0
    return Pipeline(
        name=NAME,
        params=ListingsJob,
        plan=plan,
        steps=(
            duty(ScrapeCity, timeout=4 * timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(PollRun, runs.poll, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            duty(ReadItems, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            duty(FinishScrape, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(RunCost, runs.run_cost, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(FailScrape, runs.fail, on_end=scrape_task_ended),
            duty(Upkeep, timeout=600.0),
            duty(CancelScrapes, timeout=120.0),
            duty(SplitListing, timeout=60.0),
            duty(Retier, timeout=120.0),
            duty(VerifyListing, timeout=3 * page_timeout + 30.0, when_open="fail", on_end=verification_ended),
        ),
        records=(Listing, ListingSource),
        lanes=(
            Lane(STARTS_LANE, rate=5, concurrency=1, retry=NETWORK, queue=SCRAPING),
            Lane(API_LANE, rate=30, concurrency=100, retry=NETWORK, queue=SCRAPING),
            Lane(ITEMS_LANE, rate=30, concurrency=1, retry=NETWORK, queue=SCRAPING),
            Lane(UPKEEP_LANE, rate=None, concurrency=1, queue=MAINTENANCE),
            lane,
        ),
        watches=(watch(Listing, due="verify_at", task=verification, params={"action": "verify"}),),
        tables=(MarketConfig, DataSource, SourceRun, MarketScrape, ListingMerge, ListingSplit),
        on_job_end=scrape_ended,
        reasons=frozenset({REFUSED, RUN_FAILED, RUN_TIMED_OUT, RUN_ABORTED, NO_TOKEN}),
    )
