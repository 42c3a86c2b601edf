"""Two parsers read the same pages: how often they agree by field, whose evidence is stronger, and which one wins. Pure.

A *candidate* is a parser that is tried beside the one in force and whose values are never stored. It is tried on stored
pages (`reports_reparse.try_parser`), and in production on the pages that are crawled (the shadow run): each such page
is counted in the transaction that settles it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, ClassVar, Literal

from pydantic import create_model

from forager.core.record import Index
from forager.core.table import Effect, TableRow
from forager.extract.document import Document
from forager.extract.products.findings import FIELDS, Findings
from forager.extract.products.parser import Parser

HOW = ("agree", "stronger", "weaker", "even", "added", "missing")
"""How the candidate compares with the parser in force in one field of a page.

agree: both have the same value. stronger, weaker, even: the values differ, and the candidate's evidence has a higher,
lower or equal confidence. added, missing: only the candidate has a value, or only the parser in force."""
PAGE_COUNTS = ("pages", "added_pages", "missing_pages", "broken", "broken_before")
"""Pages, those on which only one of the two finds a product, and those on which one raises an error."""
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


def trial(candidate: Findings | None, current: Findings | None) -> Counter[str]:
    """Compare what two parsers found on one page; None: the parser raised an error. Returns counts by column."""
    counts = Counter(pages=1, broken=int(candidate is None), broken_before=int(current is None))
    new, old = _products(candidate), _products(current)
    if new.is_product and not old.is_product:
        counts["added_pages"] = 1
    elif old.is_product and not new.is_product:
        counts["missing_pages"] = 1
    for name in FIELDS:
        if (how := _how(new, old, name)) is not None:
            counts[f"{name}_{how}"] = 1
    return +counts


def read_or_none(parser: Parser, body: bytes, url: str) -> Findings | None:
    """Return what a candidate finds; None if it raises an error, which must not reach the page's own outcome."""
    try:
        return parser.read(Document(body, url, markup_first=True))
    except Exception:  # noqa: BLE001 - a parser is a plug-in: whatever it raises is counted
        return None


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

    def show(self, url: str, candidate: Findings | None, current: Findings | None) -> None:
        """Keep this page as an example of the fields in which the parsers differ."""
        new, old = _products(candidate), _products(current)
        for name, each in self.fields.items():
            how = _how(new, old, name)
            if how not in (None, "agree") and len(each.examples) < MOST_EXAMPLES:
                each.examples.append(f"{url}: {_shown(old, name)} → {_shown(new, name)}")

    def decide(self) -> tuple[Winner, list[str]]:
        """Return the winner and the reasons, by this rule, in this order:

        1. Fewer than 50 pages decide nothing.
        2. The parser that raises errors on more pages loses; then the one that misses more products.
        3. The candidate loses if a field is worse by more than 1 % of the pages.
        4. It wins if a field is better by more than 1 % of the pages.
        5. Otherwise nothing is decided: the parser in force stays.
        """
        pages = self.pages["pages"]
        if pages < LEAST_PAGES:
            return "undecided", [f"{pages} pages are too few; {LEAST_PAGES} are needed"]
        for one, other, problem in (
            ("broken", "broken_before", "raises errors on more pages"),
            ("missing_pages", "added_pages", "finds no product on more pages"),
        ):
            more = self.pages[one] - self.pages[other]
            if abs(more) > NOTABLE * pages:
                who: Sequence[Any] = ("current", "the candidate") if more > 0 else ("candidate", "the parser in force")
                return who[0], [f"{who[1]} {problem} ({self.pages[one]} and {self.pages[other]} of {pages})"]
        verdicts = {name: each.verdict(pages) for name, each in self.fields.items()}
        worse = [self._told(name) for name, verdict in verdicts.items() if verdict == "worse"]
        better = [self._told(name) for name, verdict in verdicts.items() if verdict == "better"]
        if worse:
            return "current", [f"worse: {each}" for each in worse]
        if better:
            return "candidate", [f"better: {each}" for each in better]
        return "undecided", ["no field differs on more than 1 % of the pages"]

    def _told(self, name: str) -> str:
        gain = self.fields[name].gain
        return f"{name} ({gain:+} of {self.pages['pages']} pages)"


_NOTHING = Findings()


def _products(found: Findings | None) -> Findings:
    """Return the findings that would be stored: those of a page without a product are not."""
    return found if found is not None and found.is_product else _NOTHING


def _how(new: Findings, old: Findings, name: str) -> str | None:
    one, other = new.values.get(name), old.values.get(name)
    if one is None or other is None:
        return None if one is other else "added" if other is None else "missing"
    if one.value == other.value:
        return "agree"
    if one.confidence == other.confidence:
        return "even"
    return "stronger" if one.confidence > other.confidence else "weaker"


def _shown(found: Findings, name: str) -> str:
    finding = found.values.get(name)
    if finding is None:
        return "nothing"
    text = str(finding.value)
    text = text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}…"
    return f"{text} ({finding.source}, {finding.confidence:.2f})"
