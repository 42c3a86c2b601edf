"""The words in which the scrape service says why a page could not be had. Pure.

The ledger keeps one sentence per task. Where a program must be able to act on it, it begins with one of these words
and a colon, as the engine's own `robots: …` does.
"""

from typing import Final

ROBOTS: Final = "robots"
CIRCUIT_OPEN: Final = "circuit_open"
POOL_EXHAUSTED: Final = "pool_exhausted"
NO_HEALTHY_PROXIES: Final = "no_healthy_proxies"
CREDENTIALS_MISSING: Final = "credentials_missing"
TIMED_OUT: Final = "timed_out"
LOGIN_WALL: Final = "login_wall"
NOT_FOUND: Final = "not_found"
BLOCKED: Final = "blocked"
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
        LOGIN_WALL,
        NOT_FOUND,
        BLOCKED,
        REFUSED,
        NOT_A_PAGE,
    }
)


def said(reason: str, message: str) -> str:
    return f"{reason}: {message}"


def reason_of(error: str | None) -> str | None:
    """The word that an error begins with, if it does."""
    word = (error or "").partition(":")[0]
    return word if word in REASONS else None


def without_reason(error: str) -> str:
    """The sentence alone, for people."""
    return error.partition(":")[2].strip() if reason_of(error) else error
