"""The settings of webhooks: the key that signs them, and the receiver of jobs that name none.

Kept apart from the wiring: every command reads the settings, few of them need the rest.
"""

from functools import partial

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, SecretUrl, setting

_webhooks = partial(setting, group="Webhooks")


class WebhookSettings(FeatureSettings):
    webhook_secret: SecretStr | None = _webhooks(
        None, "Key that signs webhooks; without it, no webhook is sent.", seed="SCRAPER_WEBHOOK_SECRET", common=True
    )
    webhook_next_secret: SecretStr | None = _webhooks(
        None, "Key that takes the place of the other; while both are set, webhooks are signed with both."
    )
    default_webhook_url: SecretUrl | None = _webhooks(
        None,
        "Receiver of webhooks of jobs without a callback_url; without it, such jobs send none.",
        seed="SCRAPER_DEFAULT_WEBHOOK_URL",
        common=True,
    )
