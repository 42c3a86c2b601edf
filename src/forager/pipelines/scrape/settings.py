"""The settings of the scrape pipeline.

Kept apart from the wiring: every command reads the settings, few of them need the rest.
"""

from functools import partial

from forager.sdk.settings import FeatureSettings, Texts, setting

_scrape = partial(setting, group="Scrape")


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
