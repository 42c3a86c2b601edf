"""The price of a places job: the pure estimate, given the settings and what earlier jobs recorded."""

import asyncio

from forager.core.schedules import Charge
from forager.kit.service import Service
from forager.pipelines.places.estimate import PlacesPlan, Terms, estimate
from forager.pipelines.places.job import PlacesJob
from forager.pipelines.places.reports import density
from forager.pipelines.places.settings import PlacesSettings


async def price(service: Service, job: PlacesJob) -> PlacesPlan:
    """Calls nothing upstream and spends nothing. Runs in a thread: a job can have 50,000 ZIPs."""
    own = service.settings.of(PlacesSettings)
    terms = Terms(rate=own.serper_rate, concurrency=own.serper_concurrency, price_per_1000=own.serper_price_per_1000)
    zips = await service.reference("zips")
    recorded = await density(service.database, keyword=job.keyword, state=job.state)
    return await asyncio.to_thread(estimate, job, zips, terms, recorded)


async def charge(service: Service, job: PlacesJob) -> Charge | None:
    """Return the money that a job costs; None for a dry run. A budget is the job's own, or a cap of the settings."""
    if job.dry_run:
        return None
    own, plan = service.settings.of(PlacesSettings), await price(service, job)
    caps = (own.serper_max_credits_hour, own.serper_max_credits_day, own.serper_max_credits_month)
    return Charge(
        plan.expected_usd,
        plan.worst_usd,
        has_budget=job.max_credits is not None or any(cap is not None for cap in caps),
        budget="a budget, `max_credits` (-p max_credits=1000)",
        warning=await _below_estimate(service, job),
    )


async def _below_estimate(service: Service, job: PlacesJob) -> str | None:
    if job.max_credits is None:
        return None
    whole = await price(service, job.model_copy(update={"max_credits": None}))
    if job.max_credits >= whole.expected_credits:
        return None
    return (
        f"The budget of {job.max_credits:,} credits is below the estimate of {whole.expected_credits:,}: "
        "the queries that it does not pay for are skipped."
    )
