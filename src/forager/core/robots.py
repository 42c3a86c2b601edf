"""The port for robots.txt: whether a URL may be fetched, and how slowly."""

from dataclasses import dataclass
from typing import Protocol

from forager.core.http import Fetch


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    allowed: bool
    crawl_delay: float | None = None
    """Seconds from one request to the next, as the site asks."""
    ask_again_in: float | None = None
    """Set if the file could not be fetched: nothing is allowed then, and it is tried again after so many seconds."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """One origin's file as stored. Times are Unix milliseconds."""

    origin: str
    """`scheme://host:port`: each origin has its own file."""
    tried_at: int
    status: int | None = None
    """Status of the last try; None if there was no answer."""
    body: str | None = None
    """The last good copy; empty if the origin has none."""
    good_at: int | None = None


class RobotsStore(Protocol):
    """Stores the files across restarts."""

    async def read(self, origin: str) -> RobotsFile | None: ...

    async def keep(self, file: RobotsFile) -> None:
        """Replace the stored file of an origin, unless that is from a later try."""
        ...


class Robots(Protocol):
    async def ask(self, url: str, fetch: Fetch) -> RobotsVerdict:
        """Return the verdict on a URL. A file that is unknown or outdated is read through `fetch`, which counts it in
        the right lane and may raise its own errors."""
        ...
