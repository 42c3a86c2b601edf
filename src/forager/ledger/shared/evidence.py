"""What both ledgers keep of a page that failed: how much of it, and for how long."""

from forager.core.errors import Evidence

DAYS = 7.0
DAY_MS = 24 * 3600 * 1000
EVIDENCE_BYTES = 256 * 1024
SCREENSHOT_BYTES = 2 * 1024 * 1024


def body_of(evidence: Evidence) -> bytes:
    """Return the body to keep: only the beginning of a very long answer."""
    return evidence.body[:EVIDENCE_BYTES]


def screenshot_of(evidence: Evidence) -> bytes | None:
    """Return the screenshot, or None if it is too big: it is never truncated."""
    shot = evidence.screenshot
    return shot if shot is not None and len(shot) <= SCREENSHOT_BYTES else None
