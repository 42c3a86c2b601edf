"""Checks a request log: pages that were requested again, their cost, and pages that should not have been requested.

Pure functions over entries. They cannot distinguish two jobs with the same pages: reset the sandbox between
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from forager.sandbox.answers import PAGE_SIZES
from forager.sandbox.journal import LoggedRequest


class AuditedPage(NamedTuple):
    keyword: str
    zip: str
    page: int


@dataclass(frozen=True, slots=True)
class Resent:
    """A page that was requested again although its answer was good or under way."""

    page: AuditedPage
    after_answer: int
    """Repeats after a whole 200: the client had it, or was killed before it could keep it."""
    after_silence: int
    """Repeats after an answer that the client never got: it was killed, gave up, or the connection broke."""

    @property
    def repeats(self) -> int:
        return self.after_answer + self.after_silence


@dataclass(frozen=True, slots=True)
class ServerAudit:
    """The sentence that `demo --crash` prints, as numbers."""

    requests: int
    distinct: int
    credits: int
    resent: tuple[Resent, ...]
    resent_credits: int
    wasted: tuple[AuditedPage, ...]

    @property
    def repeats(self) -> int:
        return sum(each.repeats for each in self.resent)


def audit(log: Iterable[LoggedRequest]) -> ServerAudit:
    entries = _asked(log)
    return ServerAudit(
        requests=len(entries),
        distinct=len({_page(entry) for entry in entries}),
        credits=credits_charged(entries),
        resent=tuple(resent(entries)),
        resent_credits=sum(entry.credits for entry, _ in _repeats(entries)),
        wasted=tuple(wasted_pages(entries)),
    )


def credits_charged(log: Iterable[LoggedRequest]) -> int:
    return sum(entry.credits for entry in log)


def resent(log: Iterable[LoggedRequest]) -> list[Resent]:
    """Pages sent more than once, by their first repeat. A retry after an error status is right: not counted."""
    counts: dict[AuditedPage, list[int]] = {}
    for entry, previous in _repeats(log):
        counts.setdefault(_page(entry), [0, 0])[0 if previous.delivered else 1] += 1
    return [Resent(page, after_answer, after_silence) for page, (after_answer, after_silence) in counts.items()]


def wasted_pages(log: Iterable[LoggedRequest]) -> list[AuditedPage]:
    """Return pages that were requested although an earlier page of their ZIP came back short. One entry per request."""
    entries = _asked(log)
    short: dict[tuple[str, str], int] = {}
    for entry in entries:
        if _good(entry) and entry.places < PAGE_SIZES[entry.endpoint]:
            place = (entry.keyword, entry.zip)
            short[place] = min(entry.page, short.get(place, entry.page))
    return [_page(entry) for entry in entries if entry.page > short.get((entry.keyword, entry.zip), entry.page)]


def _repeats(log: Iterable[LoggedRequest]) -> list[tuple[LoggedRequest, LoggedRequest]]:
    """Return each request that had no error before it to justify it, with the request for the same page before it."""
    latest: dict[tuple[str, AuditedPage], LoggedRequest] = {}
    repeats: list[tuple[LoggedRequest, LoggedRequest]] = []
    for entry in _asked(log):
        page = (entry.endpoint, _page(entry))
        previous = latest.get(page)
        if previous is not None and previous.status in (0, 200):
            repeats.append((entry, previous))
        latest[page] = entry
    return repeats


def _asked(log: Iterable[LoggedRequest]) -> list[LoggedRequest]:
    """Return the requests by page, in order of arrival. A request that was refused unread has no page."""
    return sorted((entry for entry in log if entry.page), key=lambda entry: entry.n)


def _page(entry: LoggedRequest) -> AuditedPage:
    return AuditedPage(entry.keyword, entry.zip, entry.page)


def _good(entry: LoggedRequest) -> bool:
    """Return whether this is a whole answer, with its number of places; a garbled one is not."""
    return entry.status == 200 and entry.delivered and entry.fault != "malformed"
