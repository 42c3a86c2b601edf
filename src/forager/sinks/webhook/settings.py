"""The settings of webhooks: the key that signs them, and the receiver of jobs that name none."""

from functools import partial

from pydantic import SecretStr

from forager.kit.setting_types import SecretUrl
from forager.kit.settings import FeatureSettings, setting

_webhooks = partial(setting, group="Webhooks")


class WebhookSettings(FeatureSettings):
    webhook_secret: SecretStr | None = _webhooks(
        None, "Key that signs webhooks; without it, no webhook is sent.", seed="SCRAPER_WEBHOOK_SECRET"
    )
    webhook_next_secret: SecretStr | None = _webhooks(
        None, "Key that takes the place of the other; while both are set, webhooks are signed with both."
    )
    default_webhook_url: SecretUrl | None = _webhooks(
        None,
        "Receiver of webhooks of jobs without a callback_url; without it, such jobs send none.",
        seed="SCRAPER_DEFAULT_WEBHOOK_URL",
    )
