"""What both ledgers keep of a page that failed: how much of it, and for how long."""

from forager.core.errors import Evidence

DAYS = 7.0
DAY_MS = 24 * 3600 * 1000
EVIDENCE_BYTES = 256 * 1024
SCREENSHOT_BYTES = 2 * 1024 * 1024


def body_of(evidence: Evidence) -> bytes:
    """Of a very long answer, the beginning."""
    return evidence.body[:EVIDENCE_BYTES]


def screenshot_of(evidence: Evidence) -> bytes | None:
    """Whole or not at all: half a picture is none."""
    shot = evidence.screenshot
    return shot if shot is not None and len(shot) <= SCREENSHOT_BYTES else None
