"""The reasons for which the scrape service could not fetch a page. Pure."""

from typing import Final

from forager.core.states import ErrorType, Reason
from forager.extract.html.page_fit import PageFit

ROBOTS: Final = Reason.ROBOTS.value
CIRCUIT_OPEN: Final = Reason.CIRCUIT_OPEN.value
POOL_EXHAUSTED: Final = Reason.POOL_EXHAUSTED.value
NO_HEALTHY_PROXIES: Final = Reason.NO_HEALTHY_PROXIES.value
CREDENTIALS_MISSING: Final = Reason.CREDENTIALS_MISSING.value
TIMED_OUT: Final = Reason.TIMED_OUT.value
UNREACHABLE: Final = Reason.UNREACHABLE.value
ROBOTS_UNREADABLE: Final = Reason.ROBOTS_UNREADABLE.value
PARSE_LATE: Final = Reason.PARSE_LATE.value
PARSE_CRASHED: Final = Reason.PARSE_CRASHED.value
ACTION_FAILED: Final = Reason.ACTION_FAILED.value
BLOCKED: Final = Reason.BLOCKED.value
LOGIN_WALL: Final = "login_wall"
NOT_FOUND: Final = "not_found"
REFUSED: Final = "refused"
NOT_A_PAGE: Final = "not_a_page"
LIST_PAGE: Final = "list_page"
FORM_PAGE: Final = "form_page"
ERROR_PAGE: Final = "error_page"
EMPTY_PAGE: Final = "empty_page"
NO_ITEM: Final = "no_item"
MODEL_REFUSED: Final = "model_refused"
"""The language model refused the question about described fields."""
OWN = frozenset(
    {
        LOGIN_WALL,
        NOT_FOUND,
        REFUSED,
        NOT_A_PAGE,
        LIST_PAGE,
        FORM_PAGE,
        ERROR_PAGE,
        EMPTY_PAGE,
        NO_ITEM,
        MODEL_REFUSED,
    }
)
REASONS = OWN | frozenset(Reason)
"""Every failure has one of these."""
TYPES = {
    LOGIN_WALL: ErrorType.BLOCKED,
    BLOCKED: ErrorType.BLOCKED,
    NOT_FOUND: ErrorType.HTTP,
    REFUSED: ErrorType.HTTP,
    NOT_A_PAGE: ErrorType.PARSE,
    LIST_PAGE: ErrorType.PARSE,
    FORM_PAGE: ErrorType.PARSE,
    ERROR_PAGE: ErrorType.PARSE,
    EMPTY_PAGE: ErrorType.PARSE,
    NO_ITEM: ErrorType.PARSE,
}
"""Error types of answers that are not a page, and of pages that are not the wanted one."""
INSTEAD: dict[PageFit, tuple[str, str]] = {
    "list": (LIST_PAGE, "is a list of several. Give the URL of one of them."),
    "form": (FORM_PAGE, "is a form to fill in. Give the URL of the page that it belongs to."),
    "error": (ERROR_PAGE, "reports that its content is not there any more."),
    "empty": (EMPTY_PAGE, "shows next to nothing."),
    "other": (NO_ITEM, "has none of the values that identify one. Check that the target type fits the page."),
}
"""Reason and message for each kind of page that is not an item."""
NOT_AN_ITEM = frozenset(reason for reason, _ in INSTEAD.values())
"""Reasons of pages that were fetched and are not of the requested type."""


NOT_DESCRIBED = frozenset({MODEL_REFUSED, Reason.BUDGET.value})
"""Reasons of pages that were fetched, but whose described fields could not be requested from the model."""


def shown_reason(reason: str | None) -> str | None:
    """Return the reason for callers of the service: only those above are part of its API."""
    return reason if reason in REASONS else None
