"""The settings of the places pipeline: its upstream, and the defaults of its jobs."""

from decimal import Decimal
from functools import partial

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, TableOrFile, WebUrl, setting

_serper = partial(setting, group="Serper")
_places = partial(setting, group="Places")


class PlacesSettings(FeatureSettings):
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

    default_batch_size: int = _places(
        100, "Maximum queries of a job that a worker leases at once.", seed="DEFAULT_BATCH_SIZE", ge=1, le=10_000
    )
    default_pages: int = _places(3, "Maximum pages of 10 results per ZIP.", seed="DEFAULT_PAGES", ge=1, le=10)
    max_retries_per_query: int = _places(
        3, "Retries of a query after 5xx, time-out or connection error.", seed="MAX_RETRIES_PER_QUERY", ge=0, le=100
    )
    retry_delay_seconds: float = _places(
        5.0, "Wait before the first retry; doubles with each.", seed="RETRY_DELAY_SECONDS", ge=0, le=86_400
    )
    zip_table: TableOrFile | None = _places(
        None, "CSV with the columns zip and state, or bigquery:DATASET.TABLE (default: the included table)."
    )
