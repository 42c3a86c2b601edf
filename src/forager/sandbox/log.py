"""What was asked, when, and what came of it: the evidence of every claim about requests, credits and rates.

Every request has an entry from the moment it arrives, refused ones too. Never loses a figure: totals are kept beside
the entries, which are bounded.
"""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from forager.core.errors import Rejected
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


class RequestLog:
    """The entries in order of arrival, with running totals: asking for the figures costs no pass over the log."""

    def __init__(self, now: float, limit: int = 1_000_000, path: str | None = None, stall_flag: float = 0.01):
        self._limit = limit
        self._file = _opened(Path(path)) if path else None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._stall_flag = stall_flag
        self.clear(now)

    def clear(self, now: float) -> None:
        """Forget everything; numbers go on, so that a request still in flight cannot be taken for a new one."""
        self._entries: deque[Entry] = deque(maxlen=self._limit)
        self.starts = StartCounter(now, flag_after=self._stall_flag)
        self._asked: dict[tuple[str, str, str, int], int] = {}
        self._repeated: dict[tuple[str, str, str, int], int] = {}
        self._first = getattr(self, "_last", 0) + 1
        self._last = self._first - 1
        self._in_flight = self._undelivered = self._credits = 0
        self._statuses: Counter[int] = Counter()
        self._faults: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def since(self, n: int) -> Iterator[Entry]:
        """Entries after number `n`."""
        skipped = n - self._entries[0].n + 1 if self._entries else 0
        return islice(self._entries, max(0, skipped), None)

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

    def end(self, entry: Entry, now: float) -> None:
        """The entry is final: answered, given up by the client, or cut by a fault."""
        entry.done = now
        if entry.n >= self._first:  # not one that was in flight when the log was cleared
            self._in_flight -= 1
            self._credits += entry.credits
            self._undelivered += not entry.delivered
            self._statuses[entry.status] += 1
            if entry.fault:
                self._faults[entry.fault] += 1
        if self._file is not None:
            os.write(self._file, entry.json() + b"\n")
        if self._waiting:
            self._wake()

    async def arrived(self, count: int) -> None:
        """Wait until that many requests have arrived since the start or the last reset."""
        await self._until(lambda: self.total >= count)

    async def ended(self, count: int) -> None:
        """Wait until that many requests have been answered or given up: their entries are final."""
        await self._until(lambda: self.total - self._in_flight >= count)

    @property
    def total(self) -> int:
        return self._last - self._first + 1

    def stats(self, now: float) -> dict[str, Any]:
        """The figures. `resent` counts every repeat; which of them were right is for `audit` to say."""
        self.starts.pulse(now)
        return {
            "requests": self.total,
            "in_flight": self._in_flight,
            "by_status": {str(status): count for status, count in sorted(self._statuses.items())},
            "by_fault": dict(self._faults),
            "undelivered": self._undelivered,
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
            "log_dropped": self.total - len(self._entries),
        }

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    async def _until(self, reached: Callable[[], bool]) -> None:
        if not reached():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((reached, future))
            await future

    def _wake(self) -> None:
        ready = [future for reached, future in self._waiting if reached()]
        self._waiting = [(reached, future) for reached, future in self._waiting if future not in ready]
        for future in ready:
            if not future.done():
                future.set_result(None)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise Rejected(f"{path} cannot be written ({error.strerror}). Choose another file with --log-path.") from error
