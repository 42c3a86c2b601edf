"""The settings of the listings pipeline: Apify, verification, and the thresholds for merging two listings."""

from decimal import Decimal
from functools import partial

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, Texts, WebUrl, setting

_apify = partial(setting, group="Apify")
_listings = partial(setting, group="Listings")


class ListingsSettings(FeatureSettings):
    apify_token: SecretStr | None = _apify(
        None,
        "Token of the Apify account that runs are charged to; without it nothing is scraped.",
        seed="APIFY_TOKEN",
        common=True,
    )
    apify_base_url: WebUrl = _apify("https://api.apify.com", "Base URL of the Apify API, or of the sandbox.")
    apify_actor: str = _apify("epctex~apartments-scraper-api", "The actor that reads apartments.com.")
    apify_max_charge_usd: Decimal = _apify(
        Decimal(1), "Maximum that one run of the actor may cost, in USD.", ge=Decimal("0.01"), le=1_000, common=True
    )
    apify_usd_per_1000_listings: Decimal = _apify(
        Decimal("1.10"),
        "Expected price of 1,000 listings in USD; estimates use it until runs of a market have a recorded cost.",
        ge=0,
        le=1_000,
    )
    apify_timeout_seconds: float = _apify(30.0, "Time limit for an answer of the API.", gt=0, le=600)

    apify_poll_seconds: float = _apify(
        20.0, "Time from the start of a run to its first poll; later polls are up to 30 s apart.", gt=0, le=600
    )
    apify_cost_delay_seconds: float = _apify(
        15.0, "Time from the end of a run until its cost is read, when it is final.", ge=0, le=600
    )

    listings_split_runs: int = _apify(
        0,
        "Further runs that a scrape may start when its result was cut off at the market's maximum: each run reads a"
        " part of the rents, and costs as much as any.",
        ge=0,
        le=100,
    )
    markets_autostart: bool = _listings(
        False,
        "Scrape markets by schedule from the first start with a token on; without it, after `forager markets start`.",
        common=True,
    )
    listings_maintenance_hour: int = _listings(
        3, "Hour of the UTC day at which the schedule `cleanup_maintenance` is created to run.", ge=0, le=23
    )
    listing_timeout_seconds: float = _listings(30.0, "Time for one page when a listing is verified.", gt=0, le=600)
    listing_gone_phrases: Texts = _listings(
        ("no longer available", "no longer on the market", "this listing has been removed"),
        "Phrases in the text of a page by which a listing is gone, separated by commas; case does not matter.",
    )
    listing_match_street: float = _listings(
        90.0, "Minimum similarity of the street names of merged listings, 0 to 100.", ge=0, le=100
    )
    listing_match_metres: float = _listings(150.0, "Maximum distance between merged listings.", ge=0, le=150)
    listing_match_rent: float = _listings(
        0.15, "Maximum gap between the rents of merged listings, as a share of the lower one.", ge=0, le=10
    )
    listing_match_beds: float = _listings(0.0, "Maximum gap between the bedrooms of merged listings.", ge=0, le=100)
    listing_match_baths: float = _listings(0.5, "Maximum gap between the bathrooms of merged listings.", ge=0, le=100)
