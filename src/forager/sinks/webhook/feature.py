"""The webhook sink: a message for every job that has ended, to the receiver that the job or the settings name."""

from forager.kit.feature import Ref
from forager.kit.sink_feature import SinkFeature

sink = SinkFeature(
    name="webhook",
    summary="A signed message for every job that has ended.",
    build=Ref("forager.sinks.webhook.outbox:build"),
)
