"""The findings of a running crawl about its site: addresses that were handed out, texts that were seen, patterns of
addresses that lead nowhere. Pure: no I/O, no clock.

The memory belongs to one process and saves requests and writes; the ledger alone decides what is done. A process that
starts in the middle of a crawl begins with the stored pages, and learns the rest again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from forager.pipelines.sites.addresses import pattern_of
from forager.pipelines.sites.fingerprint import NearIndex

ENOUGH = 20
"""Pages of one pattern after which it is judged."""
MOSTLY = 0.9
"""Share of duplicates from which a pattern is a trap."""
MOST_SEEN = 2_000_000
PROBES = 5
"""Pages of a pattern that are visited in turn before its yield is known."""
UNPROVEN, DOUBTFUL = 100, 500
"""Added to the rank of further pages of such a pattern, and of one whose pages are mostly copies."""


@dataclass(slots=True)
class PatternFigures:
    """The yield of the pages of one pattern."""

    pages: int = 0
    mirrored: int = 0
    """Near-duplicates of pages of another pattern."""
    repeated: int = 0
    """Near-duplicates of pages of the same pattern."""
    handed: int = 0
    """Addresses that were handed over."""
    found: int = 0
    """Addresses without parameters that no other page had shown before."""

    def penalty(self) -> int:
        """Return what is added to the rank of the next page: nothing for the first few of a pattern, and for a pattern
        that has brought pages of its own."""
        if self.pages < PROBES:
            return 0 if self.handed <= PROBES else UNPROVEN
        return DOUBTFUL if self.mirrored + self.repeated >= self.pages / 2 else 0

    def is_trap(self, pattern: str) -> bool:
        """A pattern is a trap if almost all of its pages are copies of pages elsewhere, or, for pages with parameters,
        if they repeat themselves or have never led to anything new.

        A plain path whose pages resemble each other does not count: a catalogue of short pages looks like that, and
        its links are not followed anyway.
        """
        if self.pages >= PROBES and self.mirrored == self.pages:
            return True
        if self.pages < ENOUGH:
            return False
        if self.mirrored >= MOSTLY * self.pages:
            return True
        return "?" in pattern and (self.mirrored + self.repeated >= MOSTLY * self.pages or self.found == 0)


@dataclass(slots=True)
class Frontier:
    """The memory of one crawl."""

    near: NearIndex = field(default_factory=NearIndex)
    patterns: dict[str, PatternFigures] = field(default_factory=dict)
    _handed: dict[str, str] = field(default_factory=dict)
    """Maps an address to the page that submitted it first."""

    def is_trap(self, url: str) -> bool:
        """Return whether the pattern of an address has turned out to lead nowhere."""
        pattern = pattern_of(url)
        figures = self.patterns.get(pattern)
        return figures is not None and figures.is_trap(pattern)

    def is_known(self, url: str, by: str) -> bool:
        """Return whether another page than `by` has handed this address over."""
        return self._handed.get(url, by) != by

    def hand_over(self, urls: Iterable[str], by: str) -> list[str]:
        """Return the addresses that no other page has handed over before, and remember them.

        A page that is read again, because its settlement was lost, gets the same addresses again: they are remembered
        under its own name.
        """
        if len(self._handed) > MOST_SEEN:
            self._handed.clear()  # the ledger sorts repeats out by itself, only slower
        return [url for url in urls if self._handed.setdefault(url, by) == by]

    def penalty(self, url: str) -> int:
        """Count an address as handed over, and return what is added to its rank."""
        figures = self.patterns.setdefault(pattern_of(url), PatternFigures())
        figures.handed += 1
        return figures.penalty()

    def redirected(self, url: str, target: str) -> None:
        """Remember an address that redirects to a page with its own task."""
        if pattern_of(url) != pattern_of(target):
            figures = self.patterns.setdefault(pattern_of(url), PatternFigures())
            figures.pages += 1
            figures.mirrored += 1

    def note(self, url: str, text_print: int, new_links: Iterable[str], original: str | None = None) -> None:
        """Remember a page that was read: its text, and what it brought. `original`: the page that it is a copy of."""
        pattern = pattern_of(url)
        figures = self.patterns.setdefault(pattern, PatternFigures())
        figures.pages += 1
        figures.found += sum("?" not in link for link in new_links)
        if original is None:
            self.near.add(text_print, url)
        elif pattern_of(original) == pattern:
            figures.repeated += 1
        else:
            figures.mirrored += 1

    def traps(self) -> dict[str, int]:
        """Return the patterns that are no longer visited, with the number of their pages that were."""
        return {name: each.pages for name, each in self.patterns.items() if each.is_trap(name)}
