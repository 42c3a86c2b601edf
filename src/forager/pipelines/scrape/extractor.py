"""The extractor interface: what to do on a page, and a pure function that reads it. Nothing here visits, waits or
stores.

An extractor is a value. It never raises over a page, however broken: a field that is not there is left out of
`Extracted.fields`, and becomes null in the result. `extractors/__init__.py` lists the extractors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel

from forager.core.visit import Action
from forager.extract.page_kind import PageKind

MOST_MORE = 3
"""Maximum number of further pages of a site that an extractor may request."""
ENTRY_POINTS = "forager.extractors"
"""Entry point group under which another package offers its own extractors."""
SCREENSHOT = "screenshot"
"""A field of this name holds the browser's picture of the page: a PNG, in base64. An extractor's `parse` leaves it."""


@dataclass(frozen=True, slots=True)
class Page:
    """The input of an extractor: a page as received by HTTP or as rendered by a browser."""

    url: str
    html: str | bytes
    """Bytes are decoded by the encoding that the page itself declares."""
    status: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """One field as found on the page, before normalisation."""

    value: object
    source: str
    """Where it came from, such as `json-ld:JobPosting.title`, `microdata:…`, `meta:og:title`, `css:h1`, `text`."""
    confidence: float
    """From 0 to 1: structured data above selectors above guesses from text; lower if another source disagrees."""
    also: tuple[tuple[str, str], ...] = ()
    """Value and source of every other source that disagrees."""


@dataclass(frozen=True, slots=True)
class Extracted:
    fields: Mapping[str, Found] = field(default_factory=dict)
    """Only what was found."""
    wall: str | None = None
    """The text of a login wall, if there is one: the task then fails, instead of returning an empty page."""
    kind: PageKind = "item"
    """What the page is. If it is not an item of the extractor's kind, `fields` is empty and the task fails with a
    reason that names the kind: a list, a form or an error page has no values of its own."""
    more: tuple[str, ...] = ()
    """Up to three further URLs of the same site that may have the missing fields."""


Parse = Callable[[Page, frozenset[str]], Extracted]
"""`parse(page, wanted)`: looks for these fields only."""


@dataclass(frozen=True, slots=True)
class Extractor:
    name: str
    """The target type: `job_posting`."""
    output: type[BaseModel]
    """The result: every field may be null. A field's annotation says how it is normalised (`forager.extract`)."""
    script: tuple[Action, ...]
    """What a browser does before the page is read."""
    parse: Parse
    credentials: str | None = None
    """The provider whose log-in a visit may use: `linkedin`."""
    by_default: tuple[str, ...] | None = None
    """The fields that are returned if a request names none; None means all."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.output.model_fields)
