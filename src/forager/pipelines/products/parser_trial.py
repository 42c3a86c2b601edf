"""Two parsers read the same pages: how often they agree by field, whose evidence is stronger, and which one wins. Pure.

A *candidate* is a parser that is tried in parallel with the one in force; its values are never stored. It is tried on
stored pages (`reports/reparse.py`), and in production on crawled pages (the shadow run): each such page is
counted in the transaction that settles it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar, Literal

from pydantic import create_model

from forager.core.errors import ParseFailed
from forager.core.reading import Offload
from forager.core.record import Index
from forager.core.table import Effect, TableRow
from forager.extract.html.document import Document
from forager.extract.products.findings import FIELDS, ProductFindings
from forager.extract.products.parser import Parser

HOW = ("agree", "stronger", "weaker", "even", "added", "missing")
"""Results of comparing the candidate with the parser in force, for one field of a page.

agree: both have the same value. stronger, weaker, even: the values differ, and the candidate's evidence has a higher,
lower or equal confidence. added, missing: only the candidate has a value, or only the parser in force."""
PAGE_COUNTS = ("pages", "added_pages", "missing_pages", "broken", "broken_before")
"""Pages, those on which only one of the two finds a product that the page supports (`is_supported`), and those on which
one raises an error."""
LEAST_PAGES = 50
"""A trial of fewer pages decides nothing."""
NOTABLE = 0.01
"""Share of pages by which a field must get better or worse to count."""
MOST_EXAMPLES = 3
LONGEST_EXAMPLE = 120
Verdict = Literal["better", "same", "worse"]
Winner = Literal["candidate", "current", "undecided"]


class _Trial(TableRow):
    table: ClassVar[str] = "parser_trials"
    key: ClassVar[tuple[str, ...]] = ("domain", "parser", "parser_version", "against", "against_version", "day")
    indexes: ClassVar[tuple[Index, ...]] = (Index(("day",)),)

    domain: str
    parser: str
    parser_version: int
    against: str
    against_version: int
    day: date


_counts: dict[str, Any] = dict.fromkeys(
    (*PAGE_COUNTS, *(f"{field}_{how}" for field in FIELDS for how in HOW)), (int, 0)
)
ParserTrial = create_model("ParserTrial", __base__=_Trial, **_counts)
"""Counts of a shadow run: one row per domain, pair of parser versions and day."""


def trial(candidate: ProductFindings | None, current: ProductFindings | None, body: bytes) -> Counter[str]:
    """Compare what two parsers found on one page; None: the parser raised an error. Returns counts by column.

    A product that only one of them finds counts if the page, `body`, supports it: a parser that invents products on
    pages without one gains nothing."""
    counts = Counter(pages=1, broken=int(candidate is None), broken_before=int(current is None))
    new, old = _products(candidate), _products(current)
    if new.is_product != old.is_product and not is_supported(new if new.is_product else old, body):
        return +counts
    if new.is_product and not old.is_product:
        counts["added_pages"] = 1
    elif old.is_product and not new.is_product:
        counts["missing_pages"] = 1
    for name in FIELDS:
        if (how := _how(new, old, name)) is not None:
            counts[f"{name}_{how}"] = 1
    return +counts


def read_or_none(body: bytes, url: str, read: Callable[[Document], ProductFindings]) -> ProductFindings | None:
    """Return what a candidate finds; None if it raises an error, which must not reach the page's own outcome."""
    try:
        return read(Document(body, url, markup_first=True))
    except Exception:  # noqa: BLE001 - a parser is a plug-in: whatever it raises is counted
        return None


def read_trial(
    body: bytes, url: str, read: Callable[[Document], ProductFindings], current: ProductFindings | None
) -> dict[str, int]:
    """Read a page by a candidate and compare its findings with the current ones, in a reader."""
    return dict(trial(read_or_none(body, url, read), current, body))


def compare_findings(body: bytes, one: ProductFindings | None, other: ProductFindings | None) -> dict[str, int]:
    """Compare what two parsers found on a page, in a reader: the page itself may have to decide between them."""
    return dict(trial(one, other, body))


async def tried(
    offload: Offload, body: bytes, url: str, candidate: Parser, current: ProductFindings | None
) -> dict[str, int]:
    """Return the counts of a page for a candidate. One that ends its reader is broken, like one that raises."""
    try:
        return await offload(read_trial, body, url, candidate.read, current)
    except ParseFailed:
        return dict(trial(None, current, b""))


def in_share(page_hash: str, share: float) -> bool:
    """Return whether a page belongs to this share of all pages: always the same pages, spread evenly."""
    return int(page_hash[:8], 16) < share * (1 << 32)


def counted_trial(candidate: Parser, current: Parser, domain: str, at: datetime, counts: Mapping[str, int]) -> Effect:
    """Return the effect that adds one page to the counts of its shadow run."""
    key = {
        "domain": domain,
        "parser": candidate.name,
        "parser_version": candidate.version,
        "against": current.name,
        "against_version": current.version,
        "day": at.date(),
    }
    return Effect(ParserTrial, key, add=dict(counts), insert=True)


@dataclass(slots=True)
class FieldTrial:
    """One field over all pages of a trial."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def gain(self) -> int:
        """Pages on which the candidate has the better value, less those on which it has the worse one."""
        c = self.counts
        return c["added"] + c["stronger"] - c["missing"] - c["weaker"]

    def verdict(self, pages: int) -> Verdict:
        if abs(self.gain) <= NOTABLE * pages:
            return "same"
        return "better" if self.gain > 0 else "worse"


@dataclass(slots=True)
class Trial:
    """The counts of a whole trial."""

    pages: Counter[str] = field(default_factory=Counter)
    fields: dict[str, FieldTrial] = field(default_factory=lambda: {name: FieldTrial() for name in FIELDS})

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the counts of a page, or of a row of a shadow run."""
        for name in PAGE_COUNTS:
            self.pages[name] += counts.get(name, 0)
        for name, each in self.fields.items():
            for how in HOW:
                each.counts[how] += counts.get(f"{name}_{how}", 0)

    def show(self, url: str, candidate: ProductFindings | None, current: ProductFindings | None) -> None:
        """Keep this page as an example of the fields in which the parsers differ."""
        new, old = _products(candidate), _products(current)
        for name, each in self.fields.items():
            how = _how(new, old, name)
            if how not in (None, "agree") and len(each.examples) < MOST_EXAMPLES:
                each.examples.append(f"{url}: {_shown(old, name)} → {_shown(new, name)}")

    def decide(self) -> tuple[Winner, list[str]]:
        """Return the winner and the reasons, by this rule, in this order:

        1. Fewer than 50 pages decide nothing.
        2. The candidate loses if it raises errors on more pages, if a field is worse, or if it misses more products.
        3. It wins if the parser in force raises errors on more pages, if a field is better, or if it finds more
           products.
        4. Otherwise nothing is decided: the parser in force stays.

        Each by more than 1 % of the pages. So a candidate with a field that is worse never wins, whatever else it
        finds.
        """
        pages = self.pages["pages"]
        if pages < LEAST_PAGES:
            return "undecided", [f"{pages} pages are too few; {LEAST_PAGES} are needed"]
        verdicts = {name: each.verdict(pages) for name, each in self.fields.items()}
        losses = [
            *self._more("broken", "broken_before", "the candidate raises errors on more pages"),
            *(f"worse: {self._told(name)}" for name, verdict in verdicts.items() if verdict == "worse"),
            *self._more("missing_pages", "added_pages", "the candidate finds no product on more pages"),
        ]
        if losses:
            return "current", losses
        gains = [
            *self._more("broken_before", "broken", "the parser in force raises errors on more pages"),
            *(f"better: {self._told(name)}" for name, verdict in verdicts.items() if verdict == "better"),
            *self._more("added_pages", "missing_pages", "the parser in force finds no product on more pages"),
        ]
        if gains:
            return "candidate", gains
        return "undecided", ["no field differs on more than 1 % of the pages"]

    def _more(self, one: str, other: str, problem: str) -> list[str]:
        """Return the problem, with its counts, if `one` counts notably more pages than `other`."""
        first, second, pages = self.pages[one], self.pages[other], self.pages["pages"]
        return [f"{problem} ({first} and {second} of {pages})"] if first - second > NOTABLE * pages else []

    def _told(self, name: str) -> str:
        gain = self.fields[name].gain
        return f"{name} ({gain:+} of {self.pages['pages']} pages)"


_NOTHING = ProductFindings()
_MARKUP = ("json-ld", "microdata", "opengraph", "meta")


def is_supported(found: ProductFindings, body: bytes) -> bool:
    """Return whether the page itself shows what makes these findings a product: the price, SKU or GTIN is in its
    text or markup, or its markup names the availability.

    The parser's own word does not suffice: a candidate may return the same price for every page."""
    text = body.decode("utf-8", "replace")
    price = found.get("price")
    if price is not None and re.search(rf"(?<![\d.,])(?:{_spellings(price)})(?!\d|[.,]\d)", text):
        return True
    if any(found.get(name) and str(found.get(name)) in text for name in ("sku", "gtin")):
        return True
    stock = found.values.get("availability")
    return price is None and stock is not None and stock.source in _MARKUP


def _spellings(price: Decimal) -> str:
    """Return a pattern of the usual ways to write an amount: 1299.90, 1,299.90, 1.299,90, 1 299,9 …"""
    whole, cents = f"{price:.2f}".split(".")
    groups = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", r"(?:[.,'’\\s]|&nbsp;)?", whole)
    short = cents.rstrip("0")
    end = rf"[.,]{short}0?" if short else r"(?:[.,](?:00?|-+|–))?"
    return groups + end


def _products(found: ProductFindings | None) -> ProductFindings:
    """Return the findings that would be stored: those of a page without a product are not."""
    return found if found is not None and found.is_product else _NOTHING


def _how(new: ProductFindings, old: ProductFindings, name: str) -> str | None:
    one, other = new.values.get(name), old.values.get(name)
    if one is None or other is None:
        return None if one is other else "added" if other is None else "missing"
    if one.value == other.value:
        return "agree"
    if one.confidence == other.confidence:
        return "even"
    return "stronger" if one.confidence > other.confidence else "weaker"


def _shown(found: ProductFindings, name: str) -> str:
    finding = found.values.get(name)
    if finding is None:
        return "nothing"
    text = str(finding.value)
    text = text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}…"
    return f"{text} ({finding.source}, {finding.confidence:.2f})"
