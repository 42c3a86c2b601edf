"""Starting and stopping the scrapes of the schedule, and what they cost in a month.

Scrapes cost money, so a new store scrapes nothing by itself: `dispatch_scrapes` is paused until an operator starts it
(`forager markets start`) or `FORAGER_MARKETS_AUTOSTART` does. Whether it is paused is the only state.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

from pydantic import Field

from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.schedules import Charge, Schedule
from forager.core.table import Effect
from forager.pipelines.listings.job import ListingsJob
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.records import SOURCE, DataSource
from forager.pipelines.listings.reports.markets import MONEY, cancel_waiting, valid_markets
from forager.pipelines.listings.settings import ListingsSettings
from forager.sdk.queries import at, change_row, one_row
from forager.sdk.reports import Report
from forager.sdk.service import Service

DISPATCH = "dispatch_scrapes"
"""The schedule that costs money. The other two send nothing to Apify."""
HOURS_PER_MONTH = 730
_COSTS = """
SELECT market_id, avg(cost_usd) AS mean FROM source_runs
WHERE source = :source AND cost_usd IS NOT NULL AND started_at >= :since GROUP BY market_id
"""
_MONTH_MS = HOURS_PER_MONTH * 3_600_000
_CENT = Decimal("0.01")


class MonthlyEstimate(Report):
    """The estimated cost of the schedule in a month of 730 hours."""

    markets: int = Field(description="Enabled markets.")
    runs: int = Field(description="Runs of the actor.")
    expected_usd: Decimal = Field(description="From the cost of earlier runs, or FORAGER_APIFY_USD_PER_1000_LISTINGS.")
    worst_usd: Decimal = Field(description="If every run costs FORAGER_APIFY_MAX_CHARGE_USD, within the monthly limit.")
    limit_usd: Decimal | None = Field(description="The limit per month (`forager markets limits`); null: none.")


class ScrapingReport(Report):
    """The state of scheduled scraping, and its estimated cost."""

    started: bool
    next_dispatch_at: datetime | None = Field(description="Null while it is stopped.")
    has_token: bool = Field(description="Without a token of Apify nothing can be scraped.")
    per_month: MonthlyEstimate
    cancelled: int = Field(default=0, description="Scrapes that were planned and had not begun when it was stopped.")


async def scraping_report(service: Service) -> ScrapingReport:
    schedule = await _schedule(service)
    started = schedule is not None and not schedule.paused
    return ScrapingReport(
        started=started,
        next_dispatch_at=at(schedule.next_at) if schedule is not None and started else None,
        has_token=service.settings.of(ListingsSettings).apify_token is not None,
        per_month=await monthly_estimate(service),
    )


async def start_scraping(service: Service) -> ScrapingReport:
    """Let the schedule scrape all enabled markets from its next full hour on. Raises `Rejected` without a token."""
    own = service.settings.of(ListingsSettings)
    if own.apify_token is None:
        problem = FieldError("apify_token", "is not set")
        raise Rejected("Scraping needs a token of Apify: set APIFY_TOKEN, then start again.", fields=[problem])
    await add_schedules(service)
    if await _schedule(service) is None:  # an operator has removed it
        await service.put_schedule(replace(schedules(own.listings_maintenance_hour)[0], paused=False), no_budget=True)
    else:
        await service.resume_schedule(DISPATCH)
    await _asked(service)
    return await scraping_report(service)


async def stop_scraping(service: Service) -> ScrapingReport:
    """Start no more scrapes by schedule, and cancel those that have not begun. Runs that Apify has begun finish: they
    are paid for."""
    if await _schedule(service) is not None:
        await service.schedules.pause(DISPATCH, paused=True)
    await _asked(service)
    cancelled = await cancel_waiting(service)
    return (await scraping_report(service)).model_copy(update={"cancelled": cancelled})


async def add_schedules(service: Service) -> None:
    """Create the three schedules, once, so that removing one lasts. The one that costs money is paused until it is
    started; `FORAGER_MARKETS_AUTOSTART` starts it, unless an operator has decided."""
    own = service.settings.of(ListingsSettings)
    source = await one_row(service.database, DataSource, id=SOURCE)
    if source is None or own.apify_token is None:
        return
    if not source.scheduled:
        for schedule in schedules(own.listings_maintenance_hour):
            await service.put_schedule(schedule, no_budget=True)
        await change_row(service.database, Effect(DataSource, {"id": SOURCE}, set={"scheduled": True}))
    if own.markets_autostart and not source.asked:
        if await _schedule(service) is not None:
            await service.resume_schedule(DISPATCH)
        await _asked(service)


def schedules(maintenance_hour: int) -> tuple[Schedule, ...]:
    """Return the three schedules of LI-4. None names a city."""
    return (
        _new(DISPATCH, cron="0 * * * *", paused=True),
        _new("decay_and_verify", cron="0 * * * *"),
        _new("cleanup_maintenance", cron=f"0 {maintenance_hour} * * *"),
    )


async def notices(service: Service) -> Sequence[str]:
    """Return what `forager up` prints while there is a token and scraping was neither started nor stopped."""
    source = await one_row(service.database, DataSource, id=SOURCE)
    if source is None or source.asked or service.settings.of(ListingsSettings).apify_token is None:
        return ()
    estimate = await monthly_estimate(service)
    return [f"Markets are not scraped yet. {in_words(estimate)} Start: forager markets start"]


def in_words(estimate: MonthlyEstimate) -> str:
    """`19 markets: about 1,126 runs and $123.81 a month, at most $1,125.58.`"""
    return (
        f"{estimate.markets} markets: about {estimate.runs:,} runs and ${estimate.expected_usd:,.2f} a month,"
        f" at most ${estimate.worst_usd:,.2f}."
    )


async def monthly_estimate(service: Service) -> MonthlyEstimate:
    """Estimate a month of all enabled markets. Reads the store only."""
    own, limit = service.settings.of(ListingsSettings), await _limit(service)
    costs = await _recorded(service)
    runs, expected, count = Decimal(0), Decimal(0), 0
    for market in await valid_markets(service.database):
        if market.is_enabled:
            often = Decimal(HOURS_PER_MONTH) / market.frequency_hours
            runs, count = runs + often, count + 1
            expected += often * _of_run(own, costs, market.id, market.max_listings_per_scrape)
    worst = runs * (1 + own.listings_split_runs) * own.apify_max_charge_usd
    return MonthlyEstimate(
        markets=count,
        runs=round(runs),
        expected_usd=_cents(expected if limit is None else min(expected, limit)),
        worst_usd=_cents(worst if limit is None else min(worst, limit)),
        limit_usd=limit,
    )


async def charge(service: Service, job: ListingsJob) -> Charge | None:
    """Return what one job costs; None for jobs that start no run. A limit per month is the budget of all of them."""
    own, limit = service.settings.of(ListingsSettings), await _limit(service)
    if job.scrape is not None:
        costs = await _recorded(service)
        expected = _of_run(own, costs, job.scrape.market_id, job.scrape.max_listings)
        worst = (1 + job.scrape.splits) * own.apify_max_charge_usd
        return Charge(expected, worst, has_budget=limit is not None, budget=_BUDGET)
    if job.action == DISPATCH:
        month = await monthly_estimate(service)
        return Charge(
            month.expected_usd / HOURS_PER_MONTH,
            month.worst_usd / HOURS_PER_MONTH,
            has_budget=limit is not None,
            budget=_BUDGET,
            month=(month.expected_usd, month.worst_usd),
        )
    return None


_BUDGET = "a limit per month, `forager markets limits --usd-per-month 40`"


def _of_run(own: ListingsSettings, costs: dict[str, Decimal], market: str, most: int) -> Decimal:
    assumed = own.apify_usd_per_1000_listings * most / 1000
    return min(costs.get(market, assumed), own.apify_max_charge_usd)


async def _recorded(service: Service) -> dict[str, Decimal]:
    """Return what a run has cost on average in the last month, by market."""
    since = await service.ledger.now_ms() - _MONTH_MS
    rows = await service.database.fetch(_COSTS, {"source": SOURCE, "since": since})
    return {row["market_id"]: Decimal(str(row["mean"])) / MONEY for row in rows}


async def _limit(service: Service) -> Decimal | None:
    source = await one_row(service.database, DataSource, id=SOURCE)
    return None if source is None else source.max_usd_per_month


async def _schedule(service: Service) -> Schedule | None:
    try:
        return await service.schedule(DISPATCH)
    except NotFound:
        return None


async def _asked(service: Service) -> None:
    await change_row(service.database, Effect(DataSource, {"id": SOURCE}, set={"asked": True}))


def _new(action: str, *, cron: str, paused: bool = False) -> Schedule:
    return Schedule(name=action, pipeline=NAME, params={"action": action}, cron=cron, paused=paused)


def _cents(value: Decimal) -> Decimal:
    return value.quantize(_CENT, ROUND_HALF_UP)
