"""The features of this installation: our own pipelines and sinks, and those of other packages, by an entry point.

A pipeline of ours is one line in `FEATURES`, a type of sink one name in `SINKS`. Importing this module loads none of
them: a feature only names its edges.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from forager.pipelines.alerts.feature import feature as alerts
from forager.pipelines.alerts.feature import sink as notify
from forager.pipelines.listings.feature import feature as listings
from forager.pipelines.places.feature import feature as places
from forager.pipelines.products.feature import feature as products
from forager.pipelines.reviews.feature import feature as reviews
from forager.pipelines.scrape.feature import feature as scrape
from forager.pipelines.sites.feature import feature as sites
from forager.pipelines.watches.feature import feature as watches
from forager.pipelines.web.feature import feature as web
from forager.sdk import feature
from forager.sdk.feature import ENTRY_POINTS, Feature, SinkFeature, installed
from forager.sinks.bigquery.feature import sink as bigquery
from forager.sinks.clickhouse.feature import sink as clickhouse
from forager.sinks.duckdb.feature import sink as duckdb
from forager.sinks.elasticsearch.feature import sink as elasticsearch
from forager.sinks.files.feature import sink as files
from forager.sinks.kafka.feature import sink as kafka
from forager.sinks.postgres.feature import sink as postgres
from forager.sinks.search.feature import sink as search
from forager.sinks.webhook.feature import feature as deliveries
from forager.sinks.webhook.feature import sink as webhook

FEATURES: tuple[Feature, ...] = (places, products, listings, scrape, reviews, sites, watches, alerts, web, deliveries)
SINKS: tuple[SinkFeature, ...] = (
    webhook,
    bigquery,
    clickhouse,
    duckdb,
    elasticsearch,
    files,
    kafka,
    notify,
    postgres,
    search,
)


@cache
def all_features() -> tuple[Feature, ...]:
    """Return our features, then those of other packages. Raises `ValueError` if two have the same name."""
    features = (*FEATURES, *installed(ENTRY_POINTS))
    _check_names(each.name for each in features)
    return features


@cache
def all_sinks() -> tuple[SinkFeature, ...]:
    """Return our sinks, then those of other packages. Raises `ValueError` if two have the same name."""
    sinks = (*SINKS, *installed(feature.SINK_ENTRY_POINTS))
    _check_names(each.name for each in sinks)
    return sinks


def _check_names(names: Iterable[str]) -> None:
    counted = Counter(names)
    if doubles := sorted(name for name, count in counted.items() if count > 1):
        raise ValueError(f"Two features are named {doubles[0]!r}. Uninstall one of the packages that offer them.")
