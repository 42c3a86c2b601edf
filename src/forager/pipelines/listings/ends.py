"""What follows from the end of a scrape or of a verification, whichever way it ends. Pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from forager.core.ends import Aftermath, JobEnd, TaskEnd
from forager.core.states import JobState, TaskState
from forager.core.table import Effect
from forager.pipelines.listings.job import ListingsJob
from forager.pipelines.listings.records import Listing
from forager.pipelines.listings.tables import MarketConfig, MarketScrape
from forager.pipelines.listings.tasks import FailScrape, OfRun, Scrape, ScrapeCity, VerifyListing

NEXT_CYCLE = timedelta(hours=1)
"""A verification that brought no evidence is tried again after so long."""


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
    """A verification that failed leaves the listing `pending`: the next cycle looks again."""
    if end.state in (TaskState.COMPLETED, TaskState.CANCELLED):
        return None
    again = Listing(
        listing_key=task.listing_key,
        market_id=task.market_id,
        verification_status="pending",
        verify_at=end.at + NEXT_CYCLE,
    )
    return Aftermath(updates=[again])


def _on(scrape: Scrape, end: JobEnd, values: Mapping[str, object]) -> Effect:
    """Set values in the scrape's row. There is no row yet if no run was started; then it is inserted."""
    own = {**scrape.row(end.job), "ended_at": end.at}
    return Effect(MarketScrape, {"id": scrape.id}, set={**own, **values}, insert=True)
