"""Collects an extractor's findings: the most reliable value of each wanted field, and its source."""

import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from forager.extract.confidence import DISAGREED
from forager.extract.document import Document
from forager.extract.page_kind import PageKind
from forager.extract.structured_data import Thing
from forager.pipelines.scrape.extractor import Extracted, Found

# Confidence by kind of source: structured data above selectors above guesses from text.
STRUCTURED = {"json-ld": 0.98, "microdata": 0.95, "rdfa": 0.93}
SELECTOR = 0.85
LABEL = 0.8
OPEN_GRAPH = 0.7
GUESS = 0.55
LONGEST_SHOWN = 200
RELIABLE = LABEL
"""A source below this does not make a better one less sure."""


class Findings:
    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._found: dict[str, Found] = {}

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
            self._found[name] = Found(value, source, confidence)
            return
        new = Found(value, source, confidence)
        best, other = (new, held) if held.confidence < confidence else (held, new)
        if other.confidence >= RELIABLE and _disagree(best.value, other.value):
            also = (*held.also, (str(other.value)[:LONGEST_SHOWN], other.source))
            best = replace(best, confidence=best.confidence * DISAGREED, also=also)
        self._found[name] = best

    def disagree(self, name: str, others: Iterable[tuple[str, str]]) -> None:
        """List values of other sources, each with its source, beside a value that has been made less sure already."""
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
        self, address: str, url: str | None, *, more: tuple[str, ...] = (), kind: PageKind = "item", sure: float = 1.0
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
    """Whether two texts say different things; one that is a part of the other does not."""
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
