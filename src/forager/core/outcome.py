"""What a step returns. Expected ends are values; `Transient` and `Permanent` errors are raised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forager.core.record import Record
from forager.core.table import Effect
from forager.core.task import Plan

MAX_CHILDREN = 5_000
"""More children than this in one outcome would starve the writer: hand them over in parts."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Another open task of the same kind and job that need not run any more."""

    key: str
    reason: str
    """The word for it, such as `early_exit`."""
    message: str | None = None
    """What the task's `error` says. None: the reason itself."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A record that was observed to be gone: its page answers 404, say. A sighting later makes it active again."""

    record: Record
    """Its key names the stored row. What other fields tell is merged into it in the same version, as by `updates`."""
    reason: str
    """The word for it, such as `not_found`."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What was observed, as JSON: status, URL, the phrase on the page."""

    def __post_init__(self) -> None:
        if self.record.scope != "world":
            raise ValueError(f"A {self.record.kind} belongs to a job: such records are final and never gone.")


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that failed validation. It is kept beside the records, counted on the job, and changes no record."""

    record: type[Record]
    """What it should have been."""
    reason: str
    """A sentence: what is wrong with it."""
    payload: Any
    """The row as it came, as JSON."""
    key: str | None = None
    """Its natural key, if that much could be read."""


@dataclass(frozen=True, slots=True)
class Done:
    """The task is completed. Everything here becomes true in one transaction.

    Within one outcome, `records` are stored first, then `updates`, then `gone`.
    """

    records: Sequence[Record] = ()
    """What was seen."""
    tasks: Sequence[Plan] = ()
    skip: Sequence[Skip] = ()
    cost: int | None = None
    """What the call cost, in the lane's units. None: the answer did not say; the step's price is taken and flagged."""
    facts: Mapping[str, int] = field(default_factory=dict)
    updates: Sequence[Record] = ()
    """What is known better about stored records that were *not* seen: a verification, the next due time. Merged like
    a sighting, but `last_seen_at`, `times_seen` and `gone_at` stay; a key that is not stored is ignored."""
    gone: Sequence[Gone] = ()
    rejected: Sequence[Reject] = ()
    effects: Sequence[Effect] = ()
    """Changes of the pipeline's plain tables: counters that must be exact, the result of a run."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now. Burns no attempt, but waits of this kind do not go on for ever (`Step.patience`)."""

    wait: float
    reason: str
    """A sentence: what the task's `error` says while it waits."""
    give_up_at: datetime | None = None
    """For a step that knows better: a wait that would end after this moment is not begun; the task has failed."""

    def __post_init__(self) -> None:
        if self.give_up_at is not None and self.give_up_at.tzinfo is None:
            raise ValueError("`give_up_at` needs a time zone: datetime.now(UTC) + …")


@dataclass(frozen=True, slots=True)
class Drop:
    """Need not be done: the task is skipped for this reason."""

    reason: str
    """The word for it, such as `not_wanted`."""
    message: str | None = None
    """What the task's `error` says. None: the reason itself."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The whole job cannot go on until a person acts (a wrong key). The job is paused, the task stays queued."""

    reason: str


Outcome = Done | Snooze | Drop | Halt
