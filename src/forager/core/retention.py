"""Retention: how long data is kept, and how much was removed. Ages are in seconds; None means for ever."""

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Keep:
    """How long each kind of data is kept."""

    jobs: float | None = None
    """Finished jobs with their tasks, after their end. A standing job is never removed."""
    messages: float | None = None
    """Tasks of internal pipelines (webhooks) that were done or discarded, after their end."""
    rejected: float | None = None
    """Rows that failed validation, after they came."""
    attempts: float | None = None
    """The log of attempts, after their beginning."""
    changes: float | None = None
    """Changes that every sink has passed, after their commit. The newest change of a job that is still there stays,
    and so does what a sink has set aside."""
    records: float | None = None
    """Records of job scope, after the end of their job, once that job is removed. Records of world scope stay."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was removed, or would be."""

    jobs: int = 0
    tasks: int = 0
    messages: int = 0
    rejected: int = 0
    attempts: int = 0
    changes: int = 0
    records: int = 0
    more: bool = False
    """Whether there may be more to remove."""

    def __add__(self, other: Self) -> Self:
        """Add two results; `more` comes from the later one."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "more"}
        return type(self)(**sums, more=other.more)

    @property
    def total(self) -> int:
        return sum(getattr(self, each.name) for each in fields(self) if each.name != "more")
