"""The type `duckdb`: a row keeps one file in the folder of the settings."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="duckdb",
    summary="Records, their history and all changes, in a DuckDB file.",
    build=Ref("forager.sinks.duckdb.wiring:build"),
    check=Ref("forager.sinks.duckdb.wiring:check"),
    options=Ref("forager.sinks.duckdb.wiring:DuckDBOptions"),
    settings=Ref("forager.sinks.duckdb.settings:DuckDBSettings"),
)
