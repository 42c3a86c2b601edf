"""The settings of the Serper account, which several pipelines use: its key, its limits, its price."""

from decimal import Decimal
from functools import partial

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, WebUrl, setting

_serper = partial(setting, group="Serper")


class SerperSettings(FeatureSettings):
    """Settings of the account."""

    serper_api_key: SecretStr | None = _serper(
        None, "Key of the Serper account that queries are charged to.", seed="SERPER_API_KEY", common=True
    )
    serper_base_url: WebUrl = _serper("https://google.serper.dev", "URL of the Serper API; a demo uses the sandbox's.")
    serper_rate: int = _serper(
        300,
        "Maximum queries started in any one second, by your package: 50, 100, 200 or 300.",
        ge=1,
        le=100_000,
        common=True,
    )
    serper_burst: int = _serper(10, "Maximum queries started at the same moment.", ge=1, le=100_000)
    serper_concurrency: int = _serper(1_000, "Maximum Serper queries in flight.", ge=1, le=100_000)
    serper_timeout_seconds: float = _serper(
        30.0, "Time limit of an answer.", seed="SERPER_TIMEOUT_SECONDS", gt=0, le=600
    )
    serper_max_credits_hour: int | None = _serper(
        None, "Maximum credits spent in a UTC hour, over all jobs; without it, no cap.", ge=0
    )
    serper_max_credits_day: int | None = _serper(
        None, "Maximum credits spent in a UTC day, over all jobs; without it, no cap.", ge=0, common=True
    )
    serper_max_credits_month: int | None = _serper(
        None, "Maximum credits spent in a UTC month, over all jobs; without it, no cap.", ge=0, common=True
    )
    serper_price_per_1000: Decimal | None = _serper(
        None, "Price of 1,000 credits in USD (default: that of the package with this rate).", ge=0, le=1_000_000
    )
