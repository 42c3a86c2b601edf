"""The type `search`: exists without a row, as soon as a pipeline declares searchable records."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="search",
    summary="The full-text index of products, in the same store.",
    build=Ref("forager.sinks.search.sink:build"),
    from_settings=Ref("forager.sinks.search.sink:from_settings"),
    addable=False,
)
