"""Pages on demand: a URL and what kind of page it is, and the fields of it come back, each with where it was found."""

from forager.pipelines.scrape.extractor import ENTRY_POINTS, Extracted, Extractor, Found, Page
from forager.pipelines.scrape.job import BatchTarget, ScrapeJob, ScrapeRequest, Target, check
from forager.pipelines.scrape.pipeline import MOST_QUEUED, NAME, build, limits, plan
from forager.pipelines.scrape.records import Result
from forager.pipelines.scrape.steps import Scraper
from forager.pipelines.scrape.target import Scrape
from forager.pipelines.scrape.words import (
    BLOCKED,
    CIRCUIT_OPEN,
    CREDENTIALS_MISSING,
    LOGIN_WALL,
    NO_HEALTHY_PROXIES,
    NOT_A_PAGE,
    NOT_FOUND,
    POOL_EXHAUSTED,
    REFUSED,
    ROBOTS,
    TIMED_OUT,
    reason_of,
    without_reason,
)

__all__ = [
    "BLOCKED",
    "CIRCUIT_OPEN",
    "CREDENTIALS_MISSING",
    "ENTRY_POINTS",
    "LOGIN_WALL",
    "MOST_QUEUED",
    "NAME",
    "NOT_A_PAGE",
    "NOT_FOUND",
    "NO_HEALTHY_PROXIES",
    "POOL_EXHAUSTED",
    "REFUSED",
    "ROBOTS",
    "TIMED_OUT",
    "BatchTarget",
    "Extracted",
    "Extractor",
    "Found",
    "Page",
    "Result",
    "Scrape",
    "ScrapeJob",
    "ScrapeRequest",
    "Scraper",
    "Target",
    "build",
    "check",
    "limits",
    "plan",
    "reason_of",
    "without_reason",
]
