"""A log of requests that other code can wait on: entries in the order of arrival, running totals, an optional file.

Entries are bounded; totals are kept beside them, so that no figure is lost when old entries leave.
"""

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from forager.core.errors import Rejected


class Logged(Protocol):
    """What a journal needs of an entry."""

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
        """The number of the entry that is made next."""
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
        """The totals that every log has."""
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
