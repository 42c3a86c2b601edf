"""Schedules: jobs that are created again and again, and the port to where they are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that is created again and again: by cron expression or by interval, in UTC."""

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
    """Where schedules are kept."""

    async def put(self, schedule: Schedule) -> None:
        """Keep it; one of the same name is replaced, but for what is known of its last firing."""
        ...

    async def all(self) -> Sequence[Schedule]:
        """By name."""
        ...

    async def remove(self, name: str) -> None:
        """Raises `NotFound`."""
        ...

    async def pause(self, name: str, *, paused: bool, next_at: int | None = None) -> None:
        """Pause, or resume with the next moment: what was missed while paused is not made up for. Raises `NotFound`."""
        ...

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        """Record that a schedule has fired; False when another process was first (`expected` is the old `next_at`)."""
        ...
