"""How the scrape pipeline is built from the settings, and from the extractors that are installed."""

from typing import Protocol

from forager.core.pipeline import Pipeline
from forager.kit.plugins import installed
from forager.kit.settings import SettingsTree
from forager.pipelines.scrape import pipeline
from forager.pipelines.scrape.extractor import ENTRY_POINTS
from forager.pipelines.scrape.extractor_files import load_extractors
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.settings import ScrapeSettings


class ScrapeTree(SettingsTree, Protocol):
    """Two settings of the application that decide how a page is fetched, beside the pipeline's own."""

    @property
    def navigation_timeout_ms(self) -> int: ...

    @property
    def backend_api_url(self) -> str | None: ...


def build(settings: ScrapeTree) -> Pipeline:
    own = settings.of(ScrapeSettings)
    return pipeline.build(
        (
            *EXTRACTORS,
            *installed(ENTRY_POINTS),
            *load_extractors(own.extractor_files),
        ),
        navigation=settings.navigation_timeout_ms / 1000,
        timeout=own.task_timeout_seconds,
        most_queued=own.max_queue_depth,
        logins=settings.backend_api_url is not None,
        keep_logged_in=own.keep_logged_in_pages,
    )
