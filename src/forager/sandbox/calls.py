"""The log of a simulated API or site: one entry per request, and what the entries prove.

`Call` is neutral: `operation` names what was asked (`reviews.list`), `subject` what it was asked of
(`accounts/1/locations/2`), `page` which part. An auditor compares these without knowing the upstream.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from forager.sandbox.journal import Journal


@dataclass(slots=True)
class Call:
    """One request. `status` is 0 until an answer begins, and stays 0 if none ever does."""

    n: int
    at: float
    """Arrival, on this process's monotonic clock."""
    wall: float
    """Arrival in the time of the simulated world, in seconds since 1970; real time unless a clock was given."""
    host: str
    """Which of the upstream's hosts was asked; for a site, the name in the request's `Host` header."""
    method: str
    path: str
    query: str
    tenant: str = ""
    """Whose credentials were sent. Credentials that the sandbox does not know appear by their last characters only."""
    operation: str = ""
    subject: str = ""
    page: int = 0
    status: int = 0
    fault: str | None = None
    items: int = 0
    """Rows in the answer."""
    cost: float = 0.0
    """What the call made the tenant pay, in the upstream's own unit."""
    delivered: bool = False
    """The whole answer was handed to the client's connection while that was open."""
    done: float | None = None
    """When it ended, on the same clock as `at`; None while it is in flight."""

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
        """The kept calls of this operation and subject; what is not named matches everything."""
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
class Repeat:
    """A page that was asked for again although its answer was good or was never received."""

    tenant: str
    operation: str
    subject: str
    page: int
    after_answer: int
    """Repeats after a whole good answer: the client had it, or was killed before it could keep it."""
    after_silence: int
    """Repeats after an answer that the client did not get: it was killed, gave up, or the connection broke."""


def repeats(log: Iterable[Call]) -> list[Repeat]:
    """Pages asked for more than once, by their first repeat. A retry after an error status is right: not counted."""
    latest: dict[tuple[str, str, str, int], Call] = {}
    counts: dict[tuple[str, str, str, int], list[int]] = {}
    for call in sorted(log, key=lambda call: call.n):
        page = (call.tenant, call.operation, call.subject, call.page)
        before = latest.get(page)
        if before is not None and before.status < 300:
            counts.setdefault(page, [0, 0])[0 if before.delivered else 1] += 1
        latest[page] = call
    return [Repeat(*page, *count) for page, count in counts.items()]


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
