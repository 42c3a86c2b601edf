"""One log line for every page that was read or could not be read (SC-15).

It never contains a page's content or the query of a URL, and names a proxy only by its number.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

import structlog

from forager.core.hosts import host_of
from forager.core.ledger import Settlement
from forager.core.states import TaskState
from forager.pipelines.scrape.target import Scrape
from forager.pipelines.scrape.words import shown_reason

log = structlog.get_logger("forager.scrape")

LONGEST_REASON = 200


def log_pages(settlements: Sequence[Settlement]) -> None:
    for settlement in settlements:
        task = settlement.lease.task
        if not isinstance(task, Scrape):
            continue
        facts = settlement.facts or {}
        if settlement.state is TaskState.COMPLETED:
            log.info(
                "a page was read",
                target_domain=host_of(task.target_url),
                target_type=task.target_type,
                duration_ms=facts.get("api_ms", 0),
                fields_extracted=facts.get("results_count", 0),
                proxy_used=facts.get("proxy"),
            )
        elif settlement.state is TaskState.FAILED:
            log.warning(
                "a page could not be read",
                target_url=_without_query(task.target_url),
                target_type=task.target_type,
                proxy_used=facts.get("proxy"),
                error_reason=_reason(settlement),
            )


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, host_of(url), parts.path, "", ""))


def _reason(settlement: Settlement) -> str:
    """Return the reason; the message only if there is no reason, because it may quote the page."""
    return shown_reason(settlement.reason) or (settlement.error or "unknown")[:LONGEST_REASON]
