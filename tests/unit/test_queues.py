"""The queue of a lane."""

from typing import ClassVar

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.app.wiring import build_pipelines
from forager.core.pipeline import Lane, Pipeline, step
from forager.ledger.catalog import DEFAULT_QUEUE, Catalog
from tests.support.sites import Look, Nothing, look


def test_listings_and_reviews_have_queues_of_their_own__LI_6() -> None:
    catalog = Catalog(build_pipelines(new_settings(), FEATURES))
    assert {catalog.queue_of(f"apify:{name}") for name in ("starts", "api", "items")} == {"scraping"}
    assert catalog.queue_of("listings") == "maintenance"
    assert catalog.queue_of("portal.example", "listings.verify_listing") == "maintenance"
    assert catalog.queue_of("google:reviews") == "review-worker"
    assert catalog.queue_of("serper") == catalog.queue_of("shop.example", "products.crawl") == DEFAULT_QUEUE


class Renamed(Look):
    kind: ClassVar[str] = "renamed"
    aliases: ClassVar[tuple[str, ...]] = ("former",)


def test_a_former_kind_of_task_has_the_queue_of_the_present_one() -> None:
    lanes = (Lane("*", queue="slow"),)
    pipeline = Pipeline("one", Nothing, lambda _: (), (step(Renamed, look),), records=(), lanes=lanes)
    assert Catalog([pipeline]).queue_of("site.example", "former") == "slow"
