"""The type `kafka`: one sink by the settings, for what pipelines publish, and others by rows."""

from forager.sdk.feature import Ref, SinkFeature

sink = SinkFeature(
    name="kafka",
    summary="Changes in Kafka topics; without a row, what pipelines publish.",
    build=Ref("forager.sinks.kafka.wiring:build"),
    check=Ref("forager.sinks.kafka.wiring:check"),
    options=Ref("forager.sinks.kafka.wiring:TopicOptions"),
    settings=Ref("forager.sinks.kafka.settings:KafkaSettings"),
    from_settings=Ref("forager.sinks.kafka.wiring:from_settings"),
)
