"""The script of a browser visit, as values. The request itself is the first step: loading the URL."""

from dataclasses import dataclass

MOST_SCROLLS = 50


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait until an element matches the selector. With `must`, a page without one is a failure."""

    selector: str
    timeout: float = 10.0
    must: bool = False


@dataclass(frozen=True, slots=True)
class WaitQuiet:
    """Wait until nothing has been loading for half a second. A page that never stops loading is taken as it is."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Scroll:
    """Scroll to the end of the page, and again while that makes it longer, at most so often."""

    times: int = 5


@dataclass(frozen=True, slots=True)
class Click:
    """Click an element, such as a consent button or "show more". A missing one is skipped, unless it `must` exist."""

    selector: str
    timeout: float = 2.0
    must: bool = False


@dataclass(frozen=True, slots=True)
class Screenshot:
    """Take a PNG of the visible part, or of the whole page."""

    full_page: bool = False
    if_wrong: bool = False
    """Only if the page looks wrong: an error status, a login, a captcha, almost no text. A screenshot of every page
    would double the time of a visit."""


Action = WaitFor | WaitQuiet | Scroll | Click | Screenshot
