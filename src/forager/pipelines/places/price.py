"""The price of a places job: the pure estimate, given the settings and what earlier jobs recorded."""

import asyncio

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
