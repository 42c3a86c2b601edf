"""What a request log proves: which pages were sent again, at what cost, and which should never have been sent.

Pure functions over entries. They cannot tell two jobs apart that ask for the same pages: reset the sandbox between
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from forager.sandbox.answers import PAGE_SIZES
from forager.sandbox.log import Entry


class Page(NamedTuple):
    keyword: str
    zip: str
    page: int


@dataclass(frozen=True, slots=True)
class Resent:
    """A page that was asked for again although its answer was good or under way."""

    page: Page
    after_answer: int
    """Repeats after a whole 200: the client had it, or was killed before it could keep it."""
    after_silence: int
    """Repeats after an answer that the client never got: it was killed, gave up, or the connection broke."""

    @property
    def repeats(self) -> int:
        return self.after_answer + self.after_silence


@dataclass(frozen=True, slots=True)
class Audit:
    """The sentence that `demo --crash` prints, as numbers."""

    requests: int
    distinct: int
    credits: int
    resent: tuple[Resent, ...]
    resent_credits: int
    wasted: tuple[Page, ...]

    @property
    def repeats(self) -> int:
        return sum(each.repeats for each in self.resent)


def audit(log: Iterable[Entry]) -> Audit:
    entries = _asked(log)
    return Audit(
        requests=len(entries),
        distinct=len({_page(entry) for entry in entries}),
        credits=credits_charged(entries),
        resent=tuple(resent(entries)),
        resent_credits=sum(entry.credits for entry, _ in _repeats(entries)),
        wasted=tuple(wasted_pages(entries)),
    )


def credits_charged(log: Iterable[Entry]) -> int:
    return sum(entry.credits for entry in log)


def resent(log: Iterable[Entry]) -> list[Resent]:
    """Pages sent more than once, by their first repeat. A retry after an error status is right: not counted."""
    counts: dict[Page, list[int]] = {}
    for entry, previous in _repeats(log):
        counts.setdefault(_page(entry), [0, 0])[0 if previous.delivered else 1] += 1
    return [Resent(page, after_answer, after_silence) for page, (after_answer, after_silence) in counts.items()]


def wasted_pages(log: Iterable[Entry]) -> list[Page]:
    """Pages that were asked for although an earlier page of their ZIP came back short. One entry per request."""
    entries = _asked(log)
    short: dict[tuple[str, str], int] = {}
    for entry in entries:
        if _good(entry) and entry.places < PAGE_SIZES[entry.endpoint]:
            place = (entry.keyword, entry.zip)
            short[place] = min(entry.page, short.get(place, entry.page))
    return [_page(entry) for entry in entries if entry.page > short.get((entry.keyword, entry.zip), entry.page)]


def _repeats(log: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Each request that had no error before it to justify it, with the request for the same page before it."""
    latest: dict[tuple[str, Page], Entry] = {}
    repeats: list[tuple[Entry, Entry]] = []
    for entry in _asked(log):
        page = (entry.endpoint, _page(entry))
        previous = latest.get(page)
        if previous is not None and previous.status in (0, 200):
            repeats.append((entry, previous))
        latest[page] = entry
    return repeats


def _asked(log: Iterable[Entry]) -> list[Entry]:
    """Requests for a page, in order of arrival; what was refused before it was understood asks for none."""
    return sorted((entry for entry in log if entry.page), key=lambda entry: entry.n)


def _page(entry: Entry) -> Page:
    return Page(entry.keyword, entry.zip, entry.page)


def _good(entry: Entry) -> bool:
    """A whole answer that says how many places there are; a garbled one does not."""
    return entry.status == 200 and entry.delivered and entry.fault != "malformed"
