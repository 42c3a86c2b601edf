"""The type `postgres`: a row delivers to the database of the settings, which is not the ledger's."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="postgres",
    summary="Records, their history and all changes, in tables of a PostgreSQL database.",
    build=Ref("forager.sinks.postgres.wiring:build"),
    check=Ref("forager.sinks.postgres.wiring:check"),
    options=Ref("forager.sinks.postgres.settings:PostgresSinkOptions"),
    settings=Ref("forager.sinks.postgres.settings:PostgresSinkSettings"),
)
