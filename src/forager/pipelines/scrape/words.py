"""The reasons for which the scrape service could not fetch a page. Pure."""

from typing import Final

from forager.core.reasons import ErrorType, Reason

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
BLOCKED: Final = Reason.BLOCKED.value
LOGIN_WALL: Final = "login_wall"
NOT_FOUND: Final = "not_found"
REFUSED: Final = "refused"
NOT_A_PAGE: Final = "not_a_page"
REASONS = frozenset(
    {
        ROBOTS,
        CIRCUIT_OPEN,
        POOL_EXHAUSTED,
        NO_HEALTHY_PROXIES,
        CREDENTIALS_MISSING,
        TIMED_OUT,
        UNREACHABLE,
        ROBOTS_UNREADABLE,
        LOGIN_WALL,
        NOT_FOUND,
        BLOCKED,
        REFUSED,
        NOT_A_PAGE,
        PARSE_LATE,
        PARSE_CRASHED,
    }
)
TYPES = {
    LOGIN_WALL: ErrorType.BLOCKED,
    BLOCKED: ErrorType.BLOCKED,
    NOT_FOUND: ErrorType.HTTP,
    REFUSED: ErrorType.HTTP,
    NOT_A_PAGE: ErrorType.PARSE,
}
"""Error types of answers that are not a page."""


def shown_reason(reason: str | None) -> str | None:
    """Return the reason for callers of the service: only those above are part of its API."""
    return reason if reason in REASONS else None
