"""Traces of tasks and jobs: the port, and the ids that every process computes alike. Nothing here does I/O.

The trace id of a job is the job's own id, so that a search in a tracing system finds it. A task has a trace of its own,
linked to the job's: a job may have a million tasks. Whether a trace is kept follows from its id, so that all processes
keep the same ones.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from forager.core.ledger import Lease

Attributes = dict[str, str | int | float | bool]
Span = tuple[str, int, int, Attributes]
"""Name, start and end in Unix nanoseconds, attributes."""


class AttemptTrace:
    """Records the steps of one attempt and their times. Belongs to one asyncio task."""

    __slots__ = ("_now", "began", "ended", "pipeline", "spans")

    def __init__(self, now: "Nanoseconds", pipeline: str) -> None:
        self._now = now
        self.pipeline = pipeline
        self.began = now()
        self.ended = 0
        self.spans: list[Span] = []

    def now(self) -> int:
        return self._now()

    def add(self, name: str, began: int, **attributes: str | int | float | bool) -> None:
        """Note something that began at this moment and ends now."""
        self.spans.append((name, began, self._now(), attributes))


class Nanoseconds(Protocol):
    def __call__(self) -> int: ...


class Tracer(Protocol):
    """Collects traces. Never raises, never waits."""

    def begin(self, lease: Lease, pipeline: str) -> AttemptTrace | None:
        """Return the trace of an attempt that begins; None if it is not sampled."""
        ...

    def delivered(self, sink: str, batch: Sequence[Any], began: int, error: str | None) -> None:
        """Note that a sink was given changes, from this moment until now."""
        ...

    def now(self) -> int: ...


def is_sampled(name: str, share: float) -> bool:
    """Return whether the trace of this name is kept, the same in every process."""
    if share >= 1:
        return True
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") < share * (1 << 64)


def job_trace(job: UUID) -> int:
    return job.int


def task_trace(job: UUID, task: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{job}/{task}".encode()).digest()[:16], "big") or 1


def span_id(*parts: object) -> int:
    """Return an id that every process computes alike from these parts."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big") or 1


def traceparent(job: UUID, share: float, *parts: object) -> str:
    """Return the W3C header that makes a receiver's spans part of a job's trace."""
    flags = "01" if is_sampled(str(job), share) else "00"
    return f"00-{job_trace(job):032x}-{span_id(job, *parts):016x}-{flags}"
