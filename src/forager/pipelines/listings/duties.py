"""The steps of listings that need the application: they read its tables and create jobs.

What they change is part of their outcome; the jobs that they create have keys, so a repeat after a crash creates none
twice.
"""

from collections.abc import Mapping

from forager.core.pipeline import StepFunction
from forager.kit.service import Service
from forager.pipelines.listings.duties_items import ItemsDuty
from forager.pipelines.listings.duties_scrape import ScrapeDuties
from forager.pipelines.listings.duties_upkeep import UpkeepDuties
from forager.pipelines.listings.duties_verify import VerifyDuty
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tasks import (
    CancelScrapes,
    FinishScrape,
    ReadItems,
    Retier,
    ScrapeCity,
    SplitListing,
    Upkeep,
    VerifyListing,
)
from forager.pipelines.listings.wiring import apify_of, thresholds_of


def duties(service: Service) -> Mapping[str, StepFunction]:
    """The functions of the steps made with `duty`, by kind of task."""
    own = service.settings.of(ListingsSettings)
    upkeep = UpkeepDuties(service)
    scrape = ScrapeDuties(service.database, apify_of(own), service.ledger.now)
    verify = VerifyDuty(service.database, phrases=own.listing_gone_phrases, timeout=own.listing_timeout_seconds)
    items = ItemsDuty(service.database, apify_of(own), thresholds_of(own))
    return {
        ScrapeCity.kind: scrape.start,
        ReadItems.kind: items.read,
        FinishScrape.kind: scrape.finish,
        Upkeep.kind: upkeep.run,
        CancelScrapes.kind: upkeep.cancel,
        SplitListing.kind: upkeep.split,
        Retier.kind: upkeep.retier,
        VerifyListing.kind: verify.verify,
    }
