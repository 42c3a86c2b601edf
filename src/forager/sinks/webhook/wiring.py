"""Builds the sink and the deliveries from the settings of webhooks, and provides the signing secret."""

from collections.abc import Mapping

from pydantic import SecretStr

from forager.core.pipeline import Pipeline
from forager.kit.service import SinkService
from forager.kit.settings import SettingsTree
from forager.sinks.webhook import pipeline
from forager.sinks.webhook.outbox import webhook_sink
from forager.sinks.webhook.settings import WebhookSettings
from forager.sinks.webhook.sink import WebhookSink


def build(settings: SettingsTree) -> Pipeline:
    return pipeline.build(default_url(settings))


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    return {pipeline.SECRET: settings.of(WebhookSettings).webhook_secret}


def build_sink(service: SinkService) -> WebhookSink:
    """Build the sink. It is always present, because any job may name its own receiver."""
    return webhook_sink(service.ledger, service.reports, default_url(service.settings), service.results)


def default_url(settings: SettingsTree) -> str | None:
    """Return the receiver of jobs that name none."""
    url = settings.of(WebhookSettings).default_webhook_url
    return url.get_secret_value() if url else None
