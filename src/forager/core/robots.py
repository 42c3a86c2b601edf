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


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """What is known of one origin's file. Times are milliseconds since 1970."""

    origin: str
    """`scheme://host:port`: each has a file of its own."""
    tried_at: int
    status: int | None = None
    """Of the last try; None: no answer."""
    body: str | None = None
    """The last good copy. Empty, if the origin said that it has none."""
    good_at: int | None = None


class RobotsStore(Protocol):
    """Keeps the files over a restart."""

    async def read(self, origin: str) -> RobotsFile | None: ...

    async def keep(self, file: RobotsFile) -> None:
        """Replaces what is known of the origin, unless that is of a later try."""
        ...


class Robots(Protocol):
    async def ask(self, url: str, fetch: Fetch) -> RobotsVerdict:
        """The verdict on a URL. A file that is not known, or no longer, is read through `fetch`, which charges it to
        the right lane and may raise on its own account."""
        ...
