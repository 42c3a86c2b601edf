"""Apartment listings that stay fresh, market by market: the pipeline as a value."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from forager.core.pipeline import Aftermath, JobEnd, Lane, Pipeline, TaskEnd, app_step, step
from forager.core.recheck import recheck
from forager.core.states import JobState, TaskState
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.listings.apify import NETWORK, REFUSED, Apify
from forager.pipelines.listings.job import ListingsJob
from forager.pipelines.listings.records import (
    DataSource,
    Listing,
    ListingMerge,
    ListingSource,
    ListingSplit,
    ListingUnit,
    MarketConfig,
    MarketScrape,
    SourceRun,
)
from forager.pipelines.listings.steps import RUN_ABORTED, RUN_FAILED, RUN_TIMED_OUT, RunSteps
from forager.pipelines.listings.tasks import (
    API_LANE,
    ITEMS_LANE,
    STARTS_LANE,
    UPKEEP_LANE,
    CancelScrapes,
    FailScrape,
    FinishScrape,
    OfRun,
    PollRun,
    ReadItems,
    Retier,
    RunCost,
    ScrapeCity,
    ScrapedMarket,
    SplitListing,
    Upkeep,
    VerifyListing,
)

# The effects of the end of a scrape or of a verification, however it ends. Pure.


NEXT_CYCLE = timedelta(hours=1)
"""Time until a verification without evidence is repeated."""


def scrape_ended(job: ListingsJob, end: JobEnd) -> Sequence[Effect]:
    """Count a failed scrape on its market; a scrape that finished has counted itself. The row gets the id of the job;
    why a scrape failed or was skipped is in it already (`scrape_task_ended`).

    A skipped one (a limit of the data source) and a cancelled one are not failures: the next dispatch tries again.
    """
    scrape = job.scrape
    if scrape is None:
        return []
    if end.state is JobState.CANCELLED:
        return [Effect(MarketScrape, {"id": scrape.id}, set={"job_id": str(end.job), "ended_at": end.at})]
    if end.failed:
        market = Effect(
            MarketConfig,
            {"id": scrape.market_id},
            add={"consecutive_failures": 1},
            set={"last_scrape_status": "failed"},
        )
        return [market, _on(scrape, end, {"status": "failed"})]
    if end.skipped:
        return [_on(scrape, end, {"status": "skipped"})]
    return [Effect(MarketScrape, {"id": scrape.id}, set={"job_id": str(end.job)})]


def scrape_task_ended(task: ScrapeCity | OfRun | FailScrape, end: TaskEnd) -> Aftermath | None:
    """Keep the reason and the message of a task that failed or was skipped in the row of its scrape. There is no row
    yet if no run was started; then it is inserted."""
    if end.state not in (TaskState.FAILED, TaskState.SKIPPED):
        return None
    why = {"reason": end.reason or end.state.name.lower(), "message": end.error}
    row = Effect(MarketScrape, {"id": task.scrape.id}, set={**task.scrape.row(None), **why}, insert=True)
    return Aftermath(effects=[row])


def verification_ended(task: VerifyListing, end: TaskEnd) -> Aftermath | None:
    """Leave the listing `pending` after a verification that failed: the next cycle repeats it."""
    if end.state in (TaskState.COMPLETED, TaskState.CANCELLED):
        return None
    again = Listing(
        listing_key=task.listing_key,
        market_id=task.market_id,
        verification_status="pending",
        verify_at=end.at + NEXT_CYCLE,
    )
    return Aftermath(updates=[again])


def _on(scrape: ScrapedMarket, end: JobEnd, values: Mapping[str, object]) -> Effect:
    """Set values in the scrape's row. There is no row yet if no run was started; then it is inserted."""
    own = {**scrape.row(end.job), "ended_at": end.at}
    return Effect(MarketScrape, {"id": scrape.id}, set={**own, **values}, insert=True)


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
    """Plan the verification of a listing whose confidence has fallen below 40."""
    if listing.source_url is None:
        return None
    task = VerifyListing(listing_key=listing.listing_key, market_id=listing.market_id, url=listing.source_url)
    return Plan(task)


def build(apify: Apify, *, page_timeout: float = 30.0, lane: Lane = EVERY_SITE) -> Pipeline:
    """Return the pipeline for this upstream, and this lane for portals without rules of their own."""
    runs, timeout = RunSteps(apify), apify.timeout + 30.0
    return Pipeline(
        name=NAME,
        params=ListingsJob,
        plan=plan,
        steps=(
            app_step(ScrapeCity, timeout=4 * timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(PollRun, runs.poll, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            app_step(ReadItems, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            app_step(FinishScrape, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(RunCost, runs.run_cost, timeout=timeout, retry=NETWORK, on_end=scrape_task_ended),
            step(FailScrape, runs.fail, on_end=scrape_task_ended),
            app_step(Upkeep, timeout=600.0),
            app_step(CancelScrapes, timeout=120.0),
            app_step(SplitListing, timeout=60.0),
            app_step(Retier, timeout=120.0),
            app_step(VerifyListing, timeout=3 * page_timeout + 30.0, when_open="fail", on_end=verification_ended),
        ),
        records=(Listing, ListingSource),
        lanes=(
            Lane(STARTS_LANE, rate=5, concurrency=1, retry=NETWORK, queue=SCRAPING),
            Lane(API_LANE, rate=30, concurrency=100, retry=NETWORK, queue=SCRAPING),
            Lane(ITEMS_LANE, rate=30, concurrency=1, retry=NETWORK, queue=SCRAPING),
            Lane(UPKEEP_LANE, rate=None, concurrency=1, queue=MAINTENANCE),
            lane,
        ),
        rechecks=(recheck(Listing, due="verify_at", task=verification, params={"action": "verify"}),),
        tables=(MarketConfig, DataSource, SourceRun, MarketScrape, ListingMerge, ListingSplit, ListingUnit),
        on_job_end=scrape_ended,
        reasons=frozenset({REFUSED, RUN_FAILED, RUN_TIMED_OUT, RUN_ABORTED, NO_TOKEN}),
    )
