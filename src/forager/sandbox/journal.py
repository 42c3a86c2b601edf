"""A log of requests that other code can wait on: entries in the order of arrival, running totals, an optional file.

Entries are bounded; totals are kept separately, so that no figure is lost when old entries leave.
"""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson

from forager.core.errors import Rejected
from forager.sandbox.rate import StartCounter


class Logged(Protocol):
    """The fields of an entry that a journal needs."""

    n: int
    status: int
    fault: str | None
    delivered: bool
    done: float | None

    def json(self) -> bytes: ...


E = TypeVar("E", bound=Logged)


class Journal(Generic[E]):
    """Entries in order of arrival, with running totals: reading the totals costs no pass over the entries."""

    def __init__(self, limit: int = 1_000_000, path: str | None = None) -> None:
        self._limit = limit
        self._file = _opened(Path(path)) if path else None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._last = 0
        self._forget()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[E]:
        return iter(self._entries)

    def since(self, n: int) -> Iterator[E]:
        """Entries after number `n`."""
        skipped = n - self._entries[0].n + 1 if self._entries else 0
        return islice(self._entries, max(0, skipped), None)

    def next_number(self) -> int:
        """Return the number of the entry that is made next."""
        self._last += 1
        return self._last

    def add(self, entry: E) -> None:
        """Append an entry of a request that has just arrived."""
        self._in_flight += 1
        self._entries.append(entry)
        if self._waiting:
            self._wake()

    def end(self, entry: E, now: float) -> None:
        """Close an entry: it was answered, given up by the client, or cut by a fault. It does not change again."""
        entry.done = now
        if entry.n >= self._first:  # not one that was in flight when the log was cleared
            self._in_flight -= 1
            self._undelivered += not entry.delivered
            self._statuses[entry.status] += 1
            if entry.fault:
                self._faults[entry.fault] += 1
            self._count(entry)
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

    def figures(self) -> dict[str, Any]:
        """Return the totals that every log has."""
        return {
            "requests": self.total,
            "in_flight": self._in_flight,
            "by_status": {str(status): count for status, count in sorted(self._statuses.items())},
            "by_fault": dict(self._faults),
            "undelivered": self._undelivered,
            "log_dropped": self.total - len(self._entries),
        }

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _forget(self) -> None:
        """Drop all entries; numbers go on, so that a request still in flight cannot be taken for a new one."""
        self._entries: deque[E] = deque(maxlen=self._limit)
        self._first = self._last + 1
        self._in_flight = self._undelivered = 0
        self._statuses: Counter[int] = Counter()
        self._faults: Counter[str] = Counter()

    def _count(self, entry: E) -> None:
        """Add an entry that ended to totals of a subclass."""

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


# The log of a simulated API or site: one entry per request, and what the entries prove.
#
# `Call` is neutral: `operation` names the call (`reviews.list`), `subject` its object
# (`accounts/1/locations/2`), `page` which part. An auditor compares these without knowing the upstream.


@dataclass(slots=True)
class Call:
    """One request. `status` is 0 until an answer begins, and stays 0 if none ever does."""

    n: int
    at: float
    """Arrival, on this process's monotonic clock."""
    wall: float
    """Arrival in the time of the simulated world, in seconds since 1970; real time unless a clock was given."""
    host: str
    """Host of the upstream; for a site, the name in the request's `Host` header."""
    method: str
    path: str
    query: str
    tenant: str = ""
    """Whose credentials were sent. Unknown credentials appear by their last characters only."""
    operation: str = ""
    subject: str = ""
    page: int = 0
    status: int = 0
    fault: str | None = None
    items: int = 0
    """Rows in the answer."""
    cost: float = 0.0
    """Cost of the call to the tenant, in the upstream's own unit."""
    delivered: bool = False
    """The whole answer was handed to the client's connection while that was open."""
    done: float | None = None
    """Time of its end, on the same clock as `at`; None while it is in flight."""

    def json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> "Call":
        return cls(**orjson.loads(line))


class CallLog(Journal[Call]):
    """The calls in order of arrival, with totals by operation."""

    def clear(self) -> None:
        """Forget all calls and totals."""
        self._forget()

    def stats(self) -> dict[str, Any]:
        return {**self.figures(), "by_operation": dict(self._operations), "items": self._items, "cost": self._cost}

    def calls(self, operation: str | None = None, subject: str | None = None) -> list[Call]:
        """Return the kept calls of this operation and subject; what is not named matches everything."""
        return [call for call in self if operation in (None, call.operation) and subject in (None, call.subject)]

    def _forget(self) -> None:
        super()._forget()
        self._operations: Counter[str] = Counter()
        self._items = 0
        self._cost = 0.0

    def _count(self, entry: Call) -> None:
        self._operations[entry.operation] += 1
        self._items += entry.items
        self._cost += entry.cost


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A page that was requested again although its answer was good or was never received."""

    tenant: str
    operation: str
    subject: str
    page: int
    after_answer: int
    """Repeats after a whole good answer: the client had it, or was killed before it could keep it."""
    after_silence: int
    """Repeats after an answer that the client did not get: it was killed, gave up, or the connection broke."""


def repeats(log: Iterable[Call]) -> list[RepeatedCall]:
    """Return pages requested more than once, by their first repeat. A retry after an error status is not counted."""
    latest: dict[tuple[str, str, str, int], Call] = {}
    counts: dict[tuple[str, str, str, int], list[int]] = {}
    for call in sorted(log, key=lambda call: call.n):
        page = (call.tenant, call.operation, call.subject, call.page)
        before = latest.get(page)
        if before is not None and before.status < 300:
            counts.setdefault(page, [0, 0])[0 if before.delivered else 1] += 1
        latest[page] = call
    return [RepeatedCall(*page, *count) for page, count in counts.items()]


def read_calls(lines: Iterable[bytes | str]) -> list[Call]:
    """Calls from the JSON lines of a log file, in order of arrival. A last line that a kill cut short is left out."""
    calls: list[Call] = []
    kept = [line for line in lines if line.strip()]
    for number, line in enumerate(kept, 1):
        try:
            calls.append(Call.from_json(line))
        except (ValueError, TypeError):
            if number < len(kept):
                raise
    return sorted(calls, key=lambda call: call.n)


# Every request with its time and result: the evidence of every claim about requests, credits and rates.
#
# Every request has an entry from its arrival, including refused ones. No figure is lost: totals are kept apart from
# the entries, which are bounded.


@dataclass(slots=True)
class LoggedRequest:
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
    """Time of its end, on the same clock as `at`; None while it is in flight."""

    def json(self) -> bytes:
        return orjson.dumps(self)

    @classmethod
    def from_json(cls, line: bytes | str) -> "LoggedRequest":
        return cls(**orjson.loads(line))


def read_log(lines: Iterable[bytes | str]) -> list[LoggedRequest]:
    """Entries from JSON lines, in the order of arrival. A last line that a kill cut short is left out."""
    entries: list[LoggedRequest] = []
    kept = [line for line in lines if line.strip()]
    for number, line in enumerate(kept, 1):
        try:
            entries.append(LoggedRequest.from_json(line))
        except (ValueError, TypeError):
            if number < len(kept):
                raise
    return sorted(entries, key=lambda entry: entry.n)


class RequestLog(Journal[LoggedRequest]):
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

    def arrive(self, now: float, wall: float) -> LoggedRequest:
        self._last += 1
        self._in_flight += 1
        entry = LoggedRequest(self._last, now, wall)
        self._entries.append(entry)
        self.starts.start(now)
        if self._waiting:
            self._wake()
        return entry

    def ask(self, entry: LoggedRequest) -> int:
        """Count the page of the entry. Returns the number of requests for it, this one included."""
        page = (entry.endpoint, entry.keyword, entry.zip, entry.page)
        nth = self._asked.get(page, 0) + 1
        self._asked[page] = nth
        if nth > 1:
            self._repeated[page] = nth
        return nth

    def stats(self, now: float) -> dict[str, Any]:
        """Return the figures. `resent` counts every repeat; `audit` decides which of them were right."""
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

    def _count(self, entry: LoggedRequest) -> None:
        self._credits += entry.credits
