"""Builds the scrape pipeline from the settings and the installed extractors."""

from typing import Protocol

from forager.core.pipeline import Pipeline
from forager.pipelines.scrape import pipeline
from forager.pipelines.scrape.extractor import ENTRY_POINTS, Extractor, load_extractors
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.settings import ScrapeSettings
from forager.sdk.feature import installed
from forager.sdk.settings import SettingsTree


class ScrapeTree(SettingsTree, Protocol):
    """Two settings of the application that decide how a page is fetched, in addition to the pipeline's own."""

    @property
    def navigation_timeout_ms(self) -> int: ...

    @property
    def backend_api_url(self) -> str | None: ...


def extractors_of(settings: SettingsTree) -> tuple[Extractor, ...]:
    """Return the extractors that ship, those of installed packages, and those of the operator's files."""
    return (*EXTRACTORS, *installed(ENTRY_POINTS), *load_extractors(settings.of(ScrapeSettings).extractor_files))


def build(settings: ScrapeTree) -> Pipeline:
    own = settings.of(ScrapeSettings)
    return pipeline.build(
        extractors_of(settings),
        navigation=settings.navigation_timeout_ms / 1000,
        timeout=own.task_timeout_seconds,
        most_queued=own.max_queue_depth,
        logins=settings.backend_api_url is not None,
        keep_logged_in=own.keep_logged_in_pages,
    )
