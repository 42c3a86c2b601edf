"""Builds the sink and the deliveries from the settings of webhooks, and provides the signing secret."""

from collections.abc import Mapping, Sequence

from pydantic import SecretStr

from forager.core.errors import FieldError, Refused, Rejected
from forager.core.hosts import host_of
from forager.core.pipeline import Pipeline
from forager.core.sink import Sink, SinkRow
from forager.sdk.service import SinkService
from forager.sdk.settings import SettingsTree
from forager.sinks.webhook import pipeline
from forager.sinks.webhook.changes import ChangeWebhooks, ReceiverOptions
from forager.sinks.webhook.outbox import webhook_sink
from forager.sinks.webhook.settings import WebhookSettings
from forager.sinks.webhook.signing import SEPARATOR

OWN = "webhook"
"""The sink that is always there: a message for every job that has ended."""


def build(settings: SettingsTree) -> Pipeline:
    has_traces = getattr(settings, "otel_endpoint", None) is not None
    return pipeline.build(default_url(settings), getattr(settings, "otel_sample", 0.0) if has_traces else None)


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    """Return the signing key, or both, joined, while one takes the place of the other."""
    webhooks = settings.of(WebhookSettings)
    keys = [key.get_secret_value() for key in (webhooks.webhook_secret, webhooks.webhook_next_secret) if key]
    return {pipeline.SECRET: SecretStr(SEPARATOR.join(keys)) if keys else None}


def from_settings(_: SinkService) -> SinkRow:
    """Return the sink `webhook`. It is always present, because any job may name its own receiver."""
    return SinkRow(OWN, "webhook")


def build_sink(service: SinkService, row: SinkRow) -> Sink:
    """Build the sink of job ends, or the one of a row. Raises `Rejected` if the row's URL is refused."""
    if row.name == OWN:
        return webhook_sink(service.ledger, service.reports, default_url(service.settings), service.results)
    url = ReceiverOptions(**row.options).url
    try:
        service.check_url(url)
        host_of(url)
    except (Refused, ValueError) as error:
        problem = FieldError("options.url", error.message if isinstance(error, Refused) else "it is not a valid URL")
        raise Rejected(f"options.url: {problem.message}", fields=[problem]) from error

    return ChangeWebhooks(row, url, service.ledger, service.reports.job, service.clock)


def check(service: SinkService, _: SinkRow) -> Sequence[str]:
    """Check that webhooks can be signed. The receiver is not called: it may start later."""
    if service.settings.of(WebhookSettings).webhook_secret is None:
        return ["FORAGER_WEBHOOK_SECRET is not set: messages are kept, and none is sent until it is"]
    return []


def default_url(settings: SettingsTree) -> str | None:
    """Return the receiver of jobs that name none."""
    url = settings.of(WebhookSettings).default_webhook_url
    return url.get_secret_value() if url else None
