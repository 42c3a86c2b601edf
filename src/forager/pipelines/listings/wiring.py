"""How the listings pipeline is built from its settings, and which secret its requests name."""

from collections.abc import Mapping
from datetime import timedelta

from pydantic import SecretStr

from forager.core.pipeline import Pipeline
from forager.kit.settings import SettingsTree
from forager.pipelines.listings import pipeline
from forager.pipelines.listings.apify import TOKEN, Apify
from forager.pipelines.listings.same_home import Thresholds
from forager.pipelines.listings.settings import ListingsSettings


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
