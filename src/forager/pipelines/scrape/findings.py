"""Collects an extractor's findings: the most reliable value of each wanted field, and its source."""

from urllib.parse import urlsplit

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


class Findings:
    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._found: dict[str, Found] = {}

    def wants(self, name: str) -> bool:
        """Return whether the field is wanted and not found yet."""
        return name in self._wanted and name not in self._found

    def offer(self, name: str, value: object, source: str, confidence: float) -> None:
        """Offer a value. The most reliable one is kept; among equals, the first. None and blanks are ignored."""
        if name not in self._wanted or value is None or value == "":
            return
        held = self._found.get(name)
        if held is None or held.confidence < confidence:
            self._found[name] = Found(value, source, confidence)

    def offer_thing(self, name: str, thing: Thing, prop: str, value: object) -> None:
        kind = min(thing.types) if thing.types else "Thing"
        self.offer(name, value, f"{thing.source}:{kind}.{prop}", STRUCTURED[thing.source])

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._found)

    def value(self, name: str) -> object:
        finding = self._found.get(name)
        return finding.value if finding else None

    def extracted(self, address: str, url: str, *, more: tuple[str, ...] = (), kind: PageKind = "item") -> Extracted:
        """Return the result, with the page's URL as the field `address` if any other field was found.

        The URL alone would make an empty page look like a full one. A page of another `kind` has no fields.
        """
        if kind != "item":
            return Extracted(kind=kind, more=more)
        if self._found or self._wanted == {address}:
            self.offer(address, url, "url", 1.0)
        return Extracted(dict(self._found), more=more)


def page_url(document: Document) -> str:
    """Return the page's canonical URL if it is on the same host, else the URL of the request."""
    canonical = document.canonical
    if not canonical or not canonical.startswith(("http://", "https://")) or len(urlsplit(canonical).path) <= 1:
        return document.url
    same_host = urlsplit(canonical).hostname == urlsplit(document.url).hostname
    return canonical if same_host or not document.url else document.url
