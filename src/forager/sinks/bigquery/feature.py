"""The type `bigquery`: a row mirrors to the warehouse of the settings, which can also be restored from."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="bigquery",
    summary="The present state of records, jobs and queries, in tables of BigQuery.",
    build=Ref("forager.sinks.bigquery.wiring:build"),
    check=Ref("forager.sinks.bigquery.wiring:check"),
    options=Ref("forager.sinks.bigquery.settings:BigQueryOptions"),
    settings=Ref("forager.sinks.bigquery.settings:BigQuerySettings"),
    mirrors=Ref("forager.sinks.bigquery.settings:mirrors"),
    restores=Ref("forager.sinks.bigquery.wiring:restores"),
    tables=Ref("forager.sinks.bigquery.wiring:read_table"),
)
