"""The type `elasticsearch`: exists without a row while the settings name a cluster."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="elasticsearch",
    summary="Products in Elasticsearch or OpenSearch, where searches then look.",
    build=Ref("forager.sinks.elasticsearch.wiring:build"),
    settings=Ref("forager.sinks.elasticsearch.settings:ElasticsearchSettings"),
    from_settings=Ref("forager.sinks.elasticsearch.wiring:from_settings"),
    search=Ref("forager.sinks.elasticsearch.wiring:search"),
    addable=False,
)
