"""robots.txt as a port: whether a URL may be fetched, and how slowly."""

from dataclasses import dataclass
from typing import Protocol

from forager.core.http import Fetch


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    allowed: bool
    crawl_delay: float | None = None
    """Seconds from one request to the next, as the site asks."""
    ask_again_in: float | None = None
    """The file could not be had: nothing is known, so nothing is allowed; it is tried again after so many seconds."""


class Robots(Protocol):
    async def ask(self, url: str, fetch: Fetch) -> RobotsVerdict:
        """The verdict on a URL. A file that is not known, or no longer, is read through `fetch`, which charges it to
        the right lane and may raise on its own account."""
        ...
