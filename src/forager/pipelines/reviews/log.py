"""One log line, with its whole context, for every page that failed for good."""

from forager.core.ledger import LogLine, Settlement
from forager.core.states import TaskState
from forager.pipelines.reviews.tasks import AccountsPage, LocationsPage, ReviewsPage

STAGES = {AccountsPage.kind: "accounts", LocationsPage.kind: "locations", ReviewsPage.kind: "reviews"}
LONGEST_ERROR = 500


def failure_line(settlement: Settlement) -> LogLine | None:
    """Return the line about a page that failed for good; None for any other end."""
    lease = settlement.lease
    if settlement.state is not TaskState.FAILED or lease.kind not in STAGES:
        return None
    task = lease.task
    context = {
        "stage": STAGES[lease.kind],
        "account_id": getattr(task, "account_id", None),
        "location_id": getattr(task, "location_id", None),
        "page": getattr(task, "page", None),
        "attempt": lease.attempt,
        "reason": settlement.reason,
        "error_type": settlement.error_type,
        "api_status": (settlement.facts or {}).get("api_status"),
        "error": (settlement.error or "")[:LONGEST_ERROR],
    }
    return LogLine("error", "task_failed", context)
