"""What an extractor is: what to do on a page, and a pure reading of it. Nothing here visits, waits or stores.

An extractor is a value. It never raises over a page, however broken: a field that is not there is left out of
`Extracted.fields`, and becomes null in the result. Which extractors there are is said in `extractors/__init__.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel

from forager.core.visit import Action

MOST_MORE = 3
"""How many further pages of a site an extractor may ask for."""
ENTRY_POINTS = "forager.extractors"
"""The group of entry points by which another package adds extractors of its own."""
SCREENSHOT = "screenshot"
"""A field of this name holds the browser's picture of the page: a PNG, in base64. An extractor's `parse` leaves it."""


@dataclass(frozen=True, slots=True)
class Page:
    """What an extractor sees: a page as it came, by HTTP or as a browser left it."""

    url: str
    html: str | bytes
    """Bytes are decoded by what the page itself says of its encoding."""
    status: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """One field of one page, as it stands there: normalising comes after."""

    value: object
    source: str
    """Where it came from, such as `json-ld:JobPosting.title`, `microdata:…`, `meta:og:title`, `css:h1`, `text`."""
    confidence: float
    """From 0 to 1: structured data above selectors above guesses from text."""


@dataclass(frozen=True, slots=True)
class Extracted:
    fields: Mapping[str, Found] = field(default_factory=dict)
    """Only what was found."""
    wall: str | None = None
    """A log-in stands in the way, in these words: an error, not a page on which everything is missing."""
    more: tuple[str, ...] = ()
    """Further URLs of the same site, at most three, on which wanted fields that are missing here may stand."""


Parse = Callable[[Page, frozenset[str]], Extracted]
"""`parse(page, wanted)`: looks for these fields only."""


@dataclass(frozen=True, slots=True)
class Extractor:
    name: str
    """The target type: `job_posting`."""
    output: type[BaseModel]
    """The result: every field may be null. A field's annotation says how it is normalised (`forager.extract`)."""
    script: tuple[Action, ...]
    """What a browser does before it hands the page over."""
    parse: Parse
    credentials: str | None = None
    """The provider whose log-in a visit may use: `linkedin`."""
    by_default: tuple[str, ...] | None = None
    """The fields that are returned where a request names none; None: all of them."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.output.model_fields)
