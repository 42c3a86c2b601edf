"""The type `clickhouse`: a row delivers to the database of the settings."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="clickhouse",
    summary="Records, their history and all changes, in tables of ClickHouse.",
    build=Ref("forager.sinks.clickhouse.wiring:build"),
    check=Ref("forager.sinks.clickhouse.wiring:check"),
    options=Ref("forager.sinks.clickhouse.settings:ClickHouseOptions"),
    settings=Ref("forager.sinks.clickhouse.settings:ClickHouseSettings"),
)
