"""Schedules: jobs that are created repeatedly, and the port for their storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that is created repeatedly, by cron expression or interval."""

    name: str
    pipeline: str
    params: Mapping[str, Any]
    cron: str | None = None
    timezone: str = "UTC"
    """The time zone of `cron`, by its IANA name: in `America/New_York`, 6:00 stays 6:00 in summer and winter."""
    every: float | None = None
    paused: bool = False
    next_at: int | None = None
    last_at: int | None = None
    last_job: UUID | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Charge:
    """The money that one job of a pipeline costs, in USD."""

    expected_usd: Decimal
    worst_usd: Decimal
    has_budget: bool
    """True if something limits what it may spend."""
    budget: str
    """Instruction for setting a budget: the end of "Give its jobs …"."""
    warning: str | None = None
    """Why its budget may not be what was meant: it is below the estimate."""
    month: tuple[Decimal, Decimal] | None = None
    """Expected and maximum cost of a month of its schedule; None: the sum over its jobs."""


class Schedules(Protocol):
    """The storage of schedules."""

    async def put(self, schedule: Schedule, *, replace: bool = True) -> bool:
        """Store a schedule. One of the same name is replaced, except for its last firing; without `replace` it stays.
        Returns whether the schedule was stored."""
        ...

    async def all(self) -> Sequence[Schedule]:
        """Return all schedules by name."""
        ...

    async def remove(self, name: str) -> None:
        """Raises `NotFound`."""
        ...

    async def pause(self, name: str, *, paused: bool, next_at: int | None = None) -> None:
        """Pause a schedule, or resume it with its next run; missed runs are not caught up. Raises `NotFound`."""
        ...

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        """Record that a schedule has fired; False when another process was first (`expected` is the old `next_at`)."""
        ...
