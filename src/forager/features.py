"""The features of this installation: our own pipelines and sinks, and those of other packages, by an entry point.

A pipeline of ours is one line in `FEATURES`, a type of sink one line in `SINKS`. Importing this module loads none of
them: a feature only names its edges.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from forager.kit import sink_feature
from forager.kit.feature import ENTRY_POINTS, Feature, Ref
from forager.kit.plugins import installed
from forager.kit.sink_feature import SinkFeature
from forager.pipelines.listings.feature import feature as listings
from forager.pipelines.places.feature import feature as places
from forager.pipelines.products.feature import feature as products
from forager.pipelines.reviews.feature import feature as reviews
from forager.pipelines.scrape.feature import feature as scrape
from forager.sinks.webhook.feature import feature as deliveries
from forager.sinks.webhook.feature import sink as webhook_sink

FEATURES: tuple[Feature, ...] = (places, products, listings, scrape, reviews, deliveries)
SINKS: tuple[SinkFeature, ...] = (
    webhook_sink,
    SinkFeature(
        name="bigquery",
        summary="The present state of records, jobs and queries, in tables of BigQuery.",
        build=Ref("forager.sinks.bigquery.wiring:build"),
        check=Ref("forager.sinks.bigquery.wiring:check"),
        options=Ref("forager.sinks.bigquery.settings:BigQueryOptions"),
        settings=Ref("forager.sinks.bigquery.settings:BigQuerySettings"),
        mirrors=Ref("forager.sinks.bigquery.settings:mirrors"),
        restores=Ref("forager.sinks.bigquery.wiring:restores"),
        tables=Ref("forager.sinks.bigquery.wiring:read_table"),
    ),
    SinkFeature(
        name="elasticsearch",
        summary="Products in Elasticsearch or OpenSearch, where searches then look.",
        build=Ref("forager.sinks.elasticsearch.wiring:build"),
        settings=Ref("forager.sinks.elasticsearch.settings:ElasticsearchSettings"),
        from_settings=Ref("forager.sinks.elasticsearch.wiring:from_settings"),
        search=Ref("forager.sinks.elasticsearch.wiring:search"),
        addable=False,
    ),
    SinkFeature(
        name="files",
        summary="Changes as files by kind and date, in a folder or in S3: JSON lines, CSV or Parquet.",
        build=Ref("forager.sinks.files.wiring:build"),
        check=Ref("forager.sinks.files.wiring:check"),
        options=Ref("forager.sinks.files.wiring:FilesOptions"),
        settings=Ref("forager.sinks.files.wiring:FilesSettings"),
    ),
    SinkFeature(
        name="jsonl",
        summary="Every change as a line of JSON, in a folder.",
        build=Ref("forager.sinks.jsonl:build"),
        settings=Ref("forager.sinks.jsonl:JsonlSettings"),
        from_settings=Ref("forager.sinks.jsonl:from_settings"),
        addable=False,
    ),
    SinkFeature(
        name="kafka",
        summary="Changes in Kafka topics; without a row, what pipelines publish.",
        build=Ref("forager.sinks.kafka.wiring:build"),
        check=Ref("forager.sinks.kafka.wiring:check"),
        options=Ref("forager.sinks.kafka.records:TopicOptions"),
        settings=Ref("forager.sinks.kafka.settings:KafkaSettings"),
        from_settings=Ref("forager.sinks.kafka.wiring:from_settings"),
    ),
    SinkFeature(
        name="search",
        summary="The full-text index of products, in the same store.",
        build=Ref("forager.sinks.search:build"),
        from_settings=Ref("forager.sinks.search:from_settings"),
        addable=False,
    ),
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
    sinks = (*SINKS, *installed(sink_feature.ENTRY_POINTS))
    _check_names(each.name for each in sinks)
    return sinks


def _check_names(names: Iterable[str]) -> None:
    counted = Counter(names)
    if doubles := sorted(name for name, count in counted.items() if count > 1):
        raise ValueError(f"Two features are named {doubles[0]!r}. Uninstall one of the packages that offer them.")
