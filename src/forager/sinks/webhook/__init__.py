"""Webhooks on their way: one task for each message and receiver, tried for a week, then a dead letter."""

from forager.sinks.webhook.pipeline import NAME, RETRY, SECRET, WEBHOOK_LANES, build, standing_job
from forager.sinks.webhook.task import DEFAULT_RECEIVER, Delivery, DeliveryJob

__all__ = [
    "DEFAULT_RECEIVER",
    "NAME",
    "RETRY",
    "SECRET",
    "WEBHOOK_LANES",
    "Delivery",
    "DeliveryJob",
    "build",
    "standing_job",
]
