"""Which queue a lane belongs to."""

from forager.config import new_settings
from forager.core.pipeline import DEFAULT_QUEUE
from forager.features import FEATURES
from forager.ledger.catalog import Catalog
from forager.wiring import build_pipelines


def test_listings_and_reviews_have_queues_of_their_own__LI_6() -> None:
    catalog = Catalog(build_pipelines(new_settings(), FEATURES))
    assert {catalog.queue_of(f"apify:{name}") for name in ("starts", "api", "items")} == {"scraping"}
    assert catalog.queue_of("listings") == "maintenance"
    assert catalog.queue_of("portal.example", "listings.verify_listing") == "maintenance"
    assert catalog.queue_of("google:reviews") == "review-worker"
    assert catalog.queue_of("serper") == catalog.queue_of("shop.example", "products.crawl") == DEFAULT_QUEUE
