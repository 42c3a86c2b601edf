"""What was asked, when, and what came of it: the evidence of every claim about requests, credits and rates.

Every request has an entry from the moment it arrives, refused ones too. Never loses a figure: totals are kept beside
the entries, which are bounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from forager.sandbox.journal import Journal
from forager.sandbox.rate import StartCounter


@dataclass(slots=True)
class Entry:
    """One request. `status` is 0 until an answer begins, and stays 0 if none ever does."""

    n: int
    at: float
    """Arrival, on this process's monotonic clock."""
    wall: float
    """Arrival, in seconds since 1970."""
    key: str = ""
    endpoint: str = ""
    zip: str = ""
    keyword: str = ""
    page: int = 0
    status: int = 0
    fault: str | None = None
    credits: int = 0
    places: int = 0
    delivered: bool = False
    """The whole answer was handed to the client's connection while that was open."""
    done: float | None = None
    """When it ended, on the same clock as `at`; None while it is in flight."""

    def json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> "Entry":
        return cls(**orjson.loads(line))


def read_log(lines: Iterable[bytes | str]) -> list[Entry]:
    """Entries from JSON lines, in the order of arrival. A last line that a kill cut short is left out."""
    entries: list[Entry] = []
    kept = [line for line in lines if line.strip()]
    for number, line in enumerate(kept, 1):
        try:
            entries.append(Entry.from_json(line))
        except (ValueError, TypeError):
            if number < len(kept):
                raise
    return sorted(entries, key=lambda entry: entry.n)


class RequestLog(Journal[Entry]):
    """The entries in order of arrival, with running totals: asking for the figures costs no pass over the log."""

    def __init__(self, now: float, limit: int = 1_000_000, path: str | None = None, stall_flag: float = 0.01):
        super().__init__(limit, path)
        self._stall_flag = stall_flag
        self.clear(now)

    def clear(self, now: float) -> None:
        """Forget everything; numbers go on, so that a request still in flight cannot be taken for a new one."""
        self._forget()
        self.starts = StartCounter(now, flag_after=self._stall_flag)
        self._asked: dict[tuple[str, str, str, int], int] = {}
        self._repeated: dict[tuple[str, str, str, int], int] = {}
        self._credits = 0

    def arrive(self, now: float, wall: float) -> Entry:
        self._last += 1
        self._in_flight += 1
        entry = Entry(self._last, now, wall)
        self._entries.append(entry)
        self.starts.start(now)
        if self._waiting:
            self._wake()
        return entry

    def ask(self, entry: Entry) -> int:
        """Count the page that the entry asks for; how often it was asked for, this time included."""
        page = (entry.endpoint, entry.keyword, entry.zip, entry.page)
        nth = self._asked.get(page, 0) + 1
        self._asked[page] = nth
        if nth > 1:
            self._repeated[page] = nth
        return nth

    def stats(self, now: float) -> dict[str, Any]:
        """The figures. `resent` counts every repeat; which of them were right is for `audit` to say."""
        self.starts.pulse(now)
        return {
            **self.figures(),
            "credits": self._credits,
            "distinct": len(self._asked),
            "resent": sum(self._repeated.values()) - len(self._repeated),
            "repeated": [
                {"endpoint": endpoint, "keyword": keyword, "zip": zip_code, "page": page, "times": times}
                for (endpoint, keyword, zip_code, page), times in islice(self._repeated.items(), 1000)
            ],
            "max_starts_per_second": self.starts.most,
            "max_starts_per_second_undisturbed": self.starts.most_undisturbed,
            "stalls": self.starts.stalls,
            "largest_stall_ms": round(self.starts.longest_stall * 1000, 3),
        }

    def _count(self, entry: Entry) -> None:
        self._credits += entry.credits
