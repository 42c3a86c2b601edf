"""What a browser does on a page, as values. The first step of every visit, going to the URL, is the request itself."""

from dataclasses import dataclass

MOST_SCROLLS = 50


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Until something that the selector names is there. With `must`, a page without it is a failure."""

    selector: str
    timeout: float = 10.0
    must: bool = False


@dataclass(frozen=True, slots=True)
class WaitQuiet:
    """Until nothing has been loading for half a second; a page that never rests is taken as it is."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Scroll:
    """To the end of the page, and again while that makes it longer, at most so often."""

    times: int = 5


@dataclass(frozen=True, slots=True)
class Click:
    """A consent banner's button, a "show more". One that is not there is passed over, unless it `must` be."""

    selector: str
    timeout: float = 2.0
    must: bool = False


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A PNG of what is visible, or of the whole page."""

    full_page: bool = False
    if_wrong: bool = False
    """Only of a page that may be none: an error's status, a log-in, a captcha, next to no text. A picture of every page
    would double the time of a visit."""


Action = WaitFor | WaitQuiet | Scroll | Click | Screenshot
