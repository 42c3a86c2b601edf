"""The extractor interface: what to do on a page, and a pure function that reads it. Nothing here visits, waits or
stores.

An extractor is a value. It never raises over a page, however broken: a field that is not there is left out of
`Extracted.fields`, and becomes null in the result. `extractors/__init__.py` lists the extractors.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel

from forager.core.errors import FieldError, Rejected
from forager.core.http import Action
from forager.extract.html.document import Document
from forager.extract.html.markdown import MarkdownOptions
from forager.extract.html.page_fit import PageFit
from forager.extract.html.structured_data import Thing
from forager.extract.text.strings import DISAGREED

MOST_MORE = 3
"""Maximum number of further pages of a site that an extractor may request."""
ENTRY_POINTS = "forager.extractors"
"""Entry point group under which another package offers its own extractors."""
SCREENSHOT = "screenshot"
"""A field of this name holds the browser's picture of the page: a PNG, in base64. An extractor's `parse` leaves it."""


@dataclass(frozen=True, slots=True)
class PageInput:
    """The input of an extractor: a page as received by HTTP or as rendered by a browser."""

    url: str
    html: str | bytes
    """Bytes are decoded by the encoding that the page itself declares."""
    status: int
    at: datetime
    markdown: MarkdownOptions | None = None
    """Options of the page's Markdown, for an extractor that returns some."""


@dataclass(frozen=True, slots=True)
class FieldFound:
    """One field as found on the page, before normalisation."""

    value: object
    source: str
    """The source of the value, such as `json-ld:JobPosting.title`, `microdata:…`, `meta:og:title`, `css:h1`, `text`."""
    confidence: float
    """From 0 to 1: structured data above selectors above guesses from text; lower if another source disagrees."""
    also: tuple[tuple[str, str], ...] = ()
    """Value and source of every other source that disagrees."""
    is_clean: bool = False
    """True if its text has been normalised: a reader does so with long texts, which would hold up the event loop."""


@dataclass(frozen=True, slots=True)
class Extracted:
    fields: Mapping[str, FieldFound] = field(default_factory=dict)
    """Only what was found."""
    wall: str | None = None
    """The text of a login wall, if there is one: the task then fails, instead of returning an empty page."""
    kind: PageFit = "item"
    """Kind of the page. If it is not an item of the extractor's kind, `fields` is empty and the task fails with a
    reason that names the kind: a list, a form or an error page has no values of its own."""
    more: tuple[str, ...] = ()
    """Up to three further URLs of the same site that may have the missing fields."""


Parse = Callable[[PageInput, frozenset[str]], Extracted]
"""`parse(page, wanted)`: looks for these fields only."""


@dataclass(frozen=True, slots=True)
class Extractor:
    name: str
    """The target type: `job_posting`."""
    output: type[BaseModel]
    """The result: every field may be null. A field's annotation decides how it is normalised (`forager.extract`)."""
    script: tuple[Action, ...]
    """Actions of a browser before the page is read."""
    parse: Parse
    credentials: str | None = None
    """The provider whose login a visit may use: `linkedin`."""
    by_default: tuple[str, ...] | None = None
    """The fields that are returned if a request names none; None means all."""

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(self.output.model_fields)


# Extractors from plain files: `forager scrape URL --extractor my_site.py`, or the setting `extractor_files`.
#
# A Python file is loaded once; each `Extractor` at its top level can be used by its name.


SETTING = "extractor_files"


def load_extractors(files: Sequence[str]) -> tuple[Extractor, ...]:
    """Return the extractors of these files. Raises `Rejected`, naming the file, if one cannot be used."""
    return tuple(
        replace(each, parse=ParseOfFile(str(Path(path).expanduser().absolute()), each.name))
        for path in files
        for each in _extractors_of(path).values()
    )


@dataclass(frozen=True, slots=True)
class ParseOfFile:
    """The `parse` of an extractor, by file and name. It can be pickled: pages are read by another process, which
    cannot import modules that this one has loaded from a path, and may have another working directory."""

    path: str
    name: str

    def __call__(self, page: PageInput, wanted: frozenset[str]) -> Extracted:
        return _extractors_of(self.path)[self.name].parse(page, wanted)


@cache
def _extractors_of(path: str) -> dict[str, Extractor]:
    file = Path(path).expanduser()
    if not os.path.isfile(file):  # noqa: PTH113 - False also for a name that no file can have
        raise _wrong(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"forager_extractor_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise _wrong(f"{path} is not a Python file; its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _wrong(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    extractors = {value.name: value for value in vars(module).values() if isinstance(value, Extractor)}
    if not extractors:
        raise _wrong(f"{path} has no Extractor at its top level; docs/extending.md has an example")
    return extractors


def _wrong(message: str) -> Rejected:
    return Rejected(f"{SETTING}: {message}.", fields=[FieldError(SETTING, message)])


# Collects an extractor's findings: the most reliable value of each wanted field, and its source.


# Confidence by kind of source: structured data above selectors above guesses from text.
STRUCTURED = {"json-ld": 0.98, "microdata": 0.95, "rdfa": 0.93}
SELECTOR = 0.85
LABEL = 0.8
OPEN_GRAPH = 0.7
GUESS = 0.55
LONGEST_SHOWN = 200
RELIABLE = LABEL
"""A source below this does not make a better one less sure."""


class FieldFindings:
    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._found: dict[str, FieldFound] = {}

    def wants(self, name: str) -> bool:
        """Return whether the field is wanted and not found yet."""
        return name in self._wanted and name not in self._found

    def offer(self, name: str, value: object, source: str, confidence: float) -> None:
        """Offer a value. The most reliable one is kept; among equals, the first. None and blanks are ignored.

        If two reliable sources disagree, the value that is kept becomes less sure, and the other one is listed with it.
        """
        if name not in self._wanted or value is None or value == "":
            return
        held = self._found.get(name)
        if held is None:
            self._found[name] = FieldFound(value, source, confidence)
            return
        new = FieldFound(value, source, confidence)
        best, other = (new, held) if held.confidence < confidence else (held, new)
        if other.confidence >= RELIABLE and _disagree(best.value, other.value):
            also = (*held.also, (str(other.value)[:LONGEST_SHOWN], other.source))
            best = replace(best, confidence=best.confidence * DISAGREED, also=also)
        self._found[name] = best

    def disagree(self, name: str, others: Iterable[tuple[str, str]]) -> None:
        """List values of other sources, each with its source, next to a value that is already less sure."""
        if name in self._found:
            self._found[name] = replace(self._found[name], also=tuple(others))

    def offer_thing(self, name: str, thing: Thing, prop: str, value: object) -> None:
        kind = min(thing.types) if thing.types else "Thing"
        self.offer(name, value, f"{thing.source}:{kind}.{prop}", STRUCTURED[thing.source])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._found)

    def value(self, name: str) -> object:
        finding = self._found.get(name)
        return finding.value if finding else None

    def extracted(
        self, address: str, url: str | None, *, more: tuple[str, ...] = (), kind: PageFit = "item", sure: float = 1.0
    ) -> Extracted:
        """Return the result, with the page's URL as the field `address` if any other field was found.

        The URL alone would make an empty page look like a full one. `sure` is the confidence that it is the right one.
        A page of another `kind` has no fields.
        """
        if kind != "item":
            return Extracted(kind=kind, more=more)
        if self._found or self._wanted == {address}:
            self.offer(address, url, "url", sure)
        return Extracted(dict(self._found), more=more)


def _disagree(one: object, other: object) -> bool:
    """Return whether two texts differ in content; a text that is a part of the other does not."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    first, second = (re.sub(r"[\W_]+", "", text.casefold()) for text in (one, other))
    return first not in second and second not in first


def page_url(document: Document) -> str:
    """Return the page's canonical URL if it is on the same host, else the URL of the request."""
    canonical = document.canonical
    if not canonical or not canonical.startswith(("http://", "https://")) or len(urlsplit(canonical).path) <= 1:
        return document.url
    same_host = urlsplit(canonical).hostname == urlsplit(document.url).hostname
    return canonical if same_host or not document.url else document.url
