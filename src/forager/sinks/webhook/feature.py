"""Webhooks have two parts: the sink, which writes a message for every ended job, and the pipeline, which sends it.

The pipeline is built in: Forager creates its jobs itself, one for each receiver.
"""

from forager.sdk.feature import Feature, Ref, SinkFeature

feature = Feature(
    name="deliveries",
    summary="Delivers webhooks to their receivers.",
    build=Ref("forager.sinks.webhook.wiring:build"),
    internal=True,
    settings=Ref("forager.sinks.webhook.settings:WebhookSettings"),
    secrets=Ref("forager.sinks.webhook.wiring:secrets"),
    log=Ref("forager.sinks.webhook.receivers:log_receivers"),
)
sink = SinkFeature(
    name="webhook",
    summary="A signed message for every change; without a row, for every job that has ended.",
    build=Ref("forager.sinks.webhook.wiring:build_sink"),
    options=Ref("forager.sinks.webhook.changes:ReceiverOptions"),
    from_settings=Ref("forager.sinks.webhook.wiring:from_settings"),
    outboxes=Ref("forager.sinks.webhook.receivers:outboxes"),
    check=Ref("forager.sinks.webhook.wiring:check"),
)
