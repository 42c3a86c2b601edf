"""Builds the listings pipeline from its settings, and binds its app steps."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from pydantic import SecretStr

from forager.core.pipeline import Pipeline, StepFunction
from forager.pipelines.listings import pipeline
from forager.pipelines.listings.apify import TOKEN, Apify
from forager.pipelines.listings.app_steps.scrape import ItemsStep, ScrapeSteps
from forager.pipelines.listings.app_steps.upkeep import UpkeepSteps
from forager.pipelines.listings.app_steps.verify import VerifyStep
from forager.pipelines.listings.matching import Thresholds
from forager.pipelines.listings.records import SOURCE, DataSource, MarketConfig
from forager.pipelines.listings.scrape_schedule import add_schedules
from forager.pipelines.listings.settings import ListingsSettings
from forager.pipelines.listings.tasks import (
    INITIAL_MARKETS,
    TIERS,
    CancelScrapes,
    FinishScrape,
    ReadItems,
    Retier,
    ScrapeCity,
    SplitListing,
    Upkeep,
    VerifyListing,
)
from forager.sdk.feature import Finding
from forager.sdk.queries import insert_row, one_row
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(ListingsSettings)
    return pipeline.build(apify_of(own), page_timeout=own.listing_timeout_seconds)


def apify_of(own: ListingsSettings) -> Apify:
    return Apify(
        url=own.apify_base_url,
        actor=own.apify_actor,
        max_usd=own.apify_max_charge_usd,
        timeout=own.apify_timeout_seconds,
        first_poll=timedelta(seconds=own.apify_poll_seconds),
        cost_is_final=timedelta(seconds=own.apify_cost_delay_seconds),
    )


def thresholds_of(own: ListingsSettings) -> Thresholds:
    return Thresholds(
        street=own.listing_match_street,
        metres=own.listing_match_metres,
        rent=own.listing_match_rent,
        beds=own.listing_match_beds,
        baths=own.listing_match_baths,
    )


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    return {TOKEN: settings.of(ListingsSettings).apify_token}


# The app steps of listings: they read the application's tables and create jobs.
#
# Their changes are part of their outcome. The jobs that they create have keys, so that a repeat after a crash creates
# none twice.


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the functions of the steps declared with `app_step`, by kind of task."""
    own = service.settings.of(ListingsSettings)
    upkeep = UpkeepSteps(service)
    scrape = ScrapeSteps(service.database, apify_of(own), service.ledger.now)
    verify = VerifyStep(service.database, phrases=own.listing_gone_phrases, timeout=own.listing_timeout_seconds)
    items = ItemsStep(service.database, apify_of(own), thresholds_of(own))
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


# Rows that come with the install: 19 markets, the data source, and the three schedules.
#
# Markets and schedules are created once. One that an operator removes stays removed. The schedules come with the first
# start that has a token of Apify: before that there is nothing for them to do.


async def prepare(service: Service) -> None:
    """Create the missing rows of a new store. Once the row of the data source exists, the store is no longer new."""
    source = await one_row(service.database, DataSource, id=SOURCE)
    if source is None:
        for each in INITIAL_MARKETS:
            row = MarketConfig(
                id=each.id,
                display_name=each.display_name,
                city=each.city,
                state=each.state,
                tier=each.tier,
                listings_rate=TIERS[each.tier].decay_rate,
            )
            await insert_row(service.database, row)
        await insert_row(service.database, DataSource(id=SOURCE, name="Apify: apartments.com"))
    await add_schedules(service)


# The checks of `forager doctor` for the listings pipeline. They change nothing, and never raise.


def checks(settings: SettingsTree) -> Iterator[Finding]:
    own = settings.of(ListingsSettings)
    if own.apify_token is None:
        remedy = "Set APIFY_TOKEN to scrape listings; `forager demo listings` needs none."
        yield Finding("apify", "note", "no token is set", remedy)
    else:
        yield Finding("apify", "ok", f"a token is set; {own.apify_actor} at {own.apify_base_url}")
