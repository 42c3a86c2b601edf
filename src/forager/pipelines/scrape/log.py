"""One log line for every page that was read or could not be read (SC-15).

It never contains a page's content or the query of a URL, and names a proxy only by its number.
"""

from urllib.parse import urlsplit, urlunsplit

from forager.core.hosts import host_of
from forager.core.ledger import LogLine, Settlement
from forager.core.states import TaskState
from forager.pipelines.scrape.target import Scrape
from forager.pipelines.scrape.words import shown_reason

LONGEST_REASON = 200


def page_line(settlement: Settlement) -> LogLine | None:
    """Return the line about a page that was read or could not be read; None for an attempt that is repeated."""
    task = settlement.lease.task
    if not isinstance(task, Scrape):
        return None
    facts = settlement.facts or {}
    if settlement.state is TaskState.COMPLETED:
        read = {
            "target_domain": host_of(task.target_url),
            "target_type": task.target_type,
            "duration_ms": facts.get("api_ms", 0),
            "fields_extracted": facts.get("results_count", 0),
            "proxy_used": facts.get("proxy"),
        }
        return LogLine("info", "page_read", read)
    if settlement.state is TaskState.FAILED:
        failed = {
            "target_url": _without_query(task.target_url),
            "target_type": task.target_type,
            "proxy_used": facts.get("proxy"),
            "error_reason": _reason(settlement),
        }
        return LogLine("warning", "page_failed", failed)
    return None


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, host_of(url), parts.path, "", ""))


def _reason(settlement: Settlement) -> str:
    """Return the reason; the message only if there is no reason, because it may quote the page."""
    return shown_reason(settlement.reason) or (settlement.error or "unknown")[:LONGEST_REASON]
