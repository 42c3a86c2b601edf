"""The settings of the scrape pipeline.

Kept apart from the wiring: every command reads the settings, few of them need the rest.
"""

from decimal import Decimal
from functools import partial

from pydantic import SecretStr

from forager.sdk.settings import FeatureSettings, Texts, WebUrl, setting

_scrape = partial(setting, group="Scrape")
_llm = partial(setting, group="Language model")


class ScrapeSettings(FeatureSettings):
    max_queue_depth: int = _scrape(
        500,
        "Maximum pages that wait; a job that would exceed it is refused.",
        seed="SCRAPER_MAX_QUEUE_DEPTH",
        ge=0,
        le=100_000,
        common=True,
    )
    task_timeout_seconds: float = _scrape(
        60.0,
        "Time limit for one page, without waiting for its lane.",
        seed="SCRAPER_TASK_TIMEOUT_SECONDS",
        gt=0,
        le=3_600,
    )
    extractor_files: Texts = _scrape(
        (),
        "Python files with extractors of your own, separated by commas. They run with Forager's rights.",
        common=True,
    )
    keep_logged_in_pages: bool = _scrape(
        False, "Keep failed pages as evidence even if they were requested with a login."
    )

    scrape_evaluate: bool = _scrape(
        False, "Allow `evaluate` actions: JavaScript of a caller, run in the pages that the caller requests."
    )

    llm_url: WebUrl | None = _llm(
        None,
        "OpenAI-compatible endpoint for described fields, up to `/v1`; without it none are read and nothing is spent.",
    )
    llm_api_key: SecretStr | None = _llm(None, "Key of that endpoint, sent as a bearer token; a local one needs none.")
    llm_model: str | None = _llm(None, "Name of the model, such as gpt-4o-mini.")
    llm_price_in: Decimal | None = _llm(
        None, "Price of a million input tokens in USD; 0 for a model of your own.", ge=0, le=10_000
    )
    llm_price_out: Decimal | None = _llm(
        None, "Price of a million output tokens in USD; 0 for a model of your own.", ge=0, le=10_000
    )
    llm_max_usd_day: Decimal | None = _llm(
        None,
        "Maximum USD spent on described fields in a UTC day, over all jobs; without it, no cap.",
        ge=0,
        le=1_000_000,
    )
    llm_max_usd_month: Decimal | None = _llm(
        None,
        "Maximum USD spent on described fields in a UTC month, over all jobs; without it, no cap.",
        ge=0,
        le=1_000_000,
    )
    llm_page_bytes: int = _llm(
        24_000, "Maximum text of a page that is sent, in bytes; a longer one is cut.", ge=1_000, le=400_000
    )
    llm_answer_tokens: int = _llm(1_000, "Maximum tokens of an answer.", ge=50, le=32_000)
    llm_timeout_seconds: float = _llm(60.0, "Time limit of an answer.", gt=0, le=600)
    llm_rate: int = _llm(10, "Maximum questions started in any one second.", ge=1, le=1_000)
    llm_concurrency: int = _llm(8, "Maximum questions in flight.", ge=1, le=1_000)
    llm_new_limit_name: bool = _llm(
        False, "Send `max_completion_tokens` instead of `max_tokens`, as OpenAI's reasoning models want it."
    )
