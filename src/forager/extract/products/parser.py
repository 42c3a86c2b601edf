"""Site parsers: how the pages of a shop are read. Pure: a parser is a function of a page.

A parser is one file in `parsers/` with a value `parser`, or an entry point of another package. It is chosen by the
page's domain; `base` reads every shop that has none of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules

from selectolax.lexbor import LexborNode

from forager.core.hosts import domains_of, host_of
from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.text.strings import one_line

ENTRY_POINTS = "forager.product_parsers"
BASE = "base"
CURRENT, NEW = "current", "new"
"""Names for the parser in force and for the candidate of a page, whatever they are called."""
MOST_HOSTS = 4_096
"""Hosts whose parser is kept in memory."""


@dataclass(frozen=True, slots=True)
class Parser:
    """One way of reading product pages."""

    name: str
    version: int
    """Raise it with every change of what is read: stored pages can then be compared and parsed again."""
    read: Callable[[Document], ProductFindings]
    """Must not raise for any page; what it cannot find it leaves out."""
    domains: tuple[str, ...] = ()
    """The sites it is for: `example.com` also stands for `www.example.com`. A name that ends with `.*` stands for all
    top-level domains: `amazon.*`."""
    candidate: bool = False
    """True if it is only tried in addition to the parser in force, on stored pages or in a shadow run. Its values are
    never stored."""

    @property
    def label(self) -> str:
        """Name and version, such as `harbour/2`."""
        return f"{self.name}/{self.version}"


@dataclass(frozen=True, slots=True)
class Parsers:
    """The parsers of an installation."""

    known: Mapping[str, Parser]
    """The parsers by name."""
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Name of the parser that an operator chose, by domain."""
    candidates: tuple[Parser, ...] = ()
    """Parsers that are tried in addition to those in force."""
    _by_host: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Names of the parsers that `for_url` has found: a crawl looks up every page."""

    @classmethod
    def of(cls, parsers: Sequence[Parser], chosen: Mapping[str, str] | None = None) -> "Parsers":
        """Raises `ValueError` if a chosen name is not among the parsers."""
        known = {parser.name: parser for parser in parsers if not parser.candidate}
        if unknown := sorted(set((chosen or {}).values()) - known.keys()):
            raise ValueError(f"There is no product parser {unknown[0]!r}. There are: {', '.join(sorted(known))}.")
        return cls(known, dict(chosen or {}), tuple(parser for parser in parsers if parser.candidate))

    def for_url(self, url: str) -> Parser:
        """Return the parser of a page: the operator's choice, the nearest domain's own, or else `base`."""
        host = host_of(url)
        found = self._by_host.get(host)
        if found is None:
            if len(self._by_host) >= MOST_HOSTS:
                self._by_host.clear()
            found = self._by_host[host] = self._name_for(host)
        return self.known[found]

    def candidate_for(self, url: str) -> Parser | None:
        """Return the newest candidate for a page: of the name of the parser in force, or for a domain of the page."""
        if not self.candidates:
            return None
        name, domains = self.for_url(url).name, tuple(domains_of(host_of(url)))
        fitting = [
            each
            for each in self.candidates
            if each.name == name or any(_stands_for(pattern, domain) for pattern in each.domains for domain in domains)
        ]
        return max(fitting, key=lambda each: each.version, default=None)

    def named(self, name: str, url: str) -> Parser | None:
        """Return the parser for a page by what a person calls it: `current` (in force), `new` (the candidate),
        `harbour` or `harbour/2`. None if no parser is for this page."""
        if name == CURRENT:
            return self.for_url(url)
        if name == NEW:
            return self.candidate_for(url)
        return next(
            (each for each in (*self.candidates, *self.known.values()) if name in (each.label, each.name)), None
        )

    def labels(self) -> list[str]:
        """Return the labels of all parsers, candidates last."""
        return [each.label for each in (*self.known.values(), *self.candidates)]

    def _name_for(self, host: str) -> str:
        for domain in domains_of(host):
            if domain in self.chosen:
                return self.chosen[domain]
            for name, parser in self.known.items():
                if any(_stands_for(pattern, domain) for pattern in parser.domains):
                    return name
        return BASE


def _stands_for(pattern: str, domain: str) -> bool:
    if pattern.endswith(".*"):
        name, _, rest = domain.partition(".")
        return name == pattern[:-2] and 0 < len(rest) <= 6
    return pattern == domain


# Helpers for parsers of one site: values by CSS selector. Pure.


def text_at(document: Document, *selectors: str) -> str | None:
    """Return the text of the first element, of the first of these selectors, that shows some."""
    first = document.first_text(*selectors)
    return first[0] if first else None


def attribute_at(document: Document, selector: str, name: str) -> str | None:
    """Return an attribute of the first element that has it."""
    for node in document.tree.css(selector):
        value = node.attributes.get(name)
        if value and value.strip():
            return value.strip()
    return None


def text_of_node(node: LexborNode | None) -> str | None:
    return (one_line(node.text(separator=" ")) or None) if node is not None else None


def fact(document: Document, rows: str, *labels: str) -> str | None:
    """Return the value next to one of these labels in a table or list of two-part rows; labels without colon, in lower
    case."""
    wanted = frozenset(labels)
    for row in document.tree.css(rows)[:300]:
        cells = [each for each in row.iter() if each.tag not in ("-text", "-comment")]
        if len(cells) >= 2 and _label(cells[0]) in wanted:
            return text_of_node(cells[1])
    return None


def _label(node: LexborNode) -> str:
    return (text_of_node(node) or "").replace("\u200e", "").replace("\u200f", "").strip(" :").casefold()


def shipped_parsers() -> Iterator[Parser]:
    """Yield the parser of every module in the package `parsers`, by name."""
    parsers = import_module(f"{__package__}.parsers")
    for module in iter_modules(parsers.__path__):
        yield import_module(f"{parsers.__name__}.{module.name}").parser
