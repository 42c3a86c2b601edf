"""Schedules: jobs that are created repeatedly, and the port for their storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that is created repeatedly, by cron expression or interval, in UTC."""

    name: str
    pipeline: str
    params: Mapping[str, Any]
    cron: str | None = None
    every: float | None = None
    paused: bool = False
    next_at: int | None = None
    last_at: int | None = None
    last_job: UUID | None = None
    last_error: str | None = None


class Schedules(Protocol):
    """The storage of schedules."""

    async def put(self, schedule: Schedule) -> None:
        """Store a schedule. One of the same name is replaced, except for its last firing."""
        ...

    async def all(self) -> Sequence[Schedule]:
        """By name."""
        ...

    async def remove(self, name: str) -> None:
        """Raises `NotFound`."""
        ...

    async def pause(self, name: str, *, paused: bool, next_at: int | None = None) -> None:
        """Pause a schedule, or resume it at the next moment; missed firings are not made up. Raises `NotFound`."""
        ...

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        """Record that a schedule has fired; False when another process was first (`expected` is the old `next_at`)."""
        ...
