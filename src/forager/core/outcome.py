"""The outcomes that a step returns. Expected ends are values; `Transient` and `Permanent` errors are raised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forager.core.record import Record
from forager.core.table import Effect
from forager.core.task import Plan

MAX_CHILDREN = 5_000
"""Maximum children in one outcome; more would block the writer for too long. Return them in parts."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Another open task of the same kind and job that need not run any more."""

    key: str
    reason: str
    """The reason, such as `early_exit`."""
    message: str | None = None
    """Message for the task's `error`; None uses the reason."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A record that was observed to be gone, for example because its page returns 404. A later sighting makes it active
    again."""

    record: Record
    """Its key identifies the stored row. Its other fields are merged into the row in the same version, as by
    `updates`."""
    reason: str
    """The reason, such as `not_found`."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The observation, as JSON: status, URL, the phrase on the page."""

    def __post_init__(self) -> None:
        if self.record.scope != "world":
            raise ValueError(f"A {self.record.kind} belongs to a job: such records are final and never gone.")


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that failed validation. It is stored apart from the records, counted on the job, and changes no record."""

    record: type[Record]
    """The record class that it should have been."""
    reason: str
    """The defect."""
    payload: Any
    """The row as received, as JSON."""
    key: str | None = None
    """Its natural key, if that could be read."""


# Made for every task: freezing it would cost more than the rest of it.
@dataclass(slots=True)
class Done:
    """The task is completed. Everything here is committed in one transaction.

    Within one outcome, `records` are stored first, then `updates`, then `gone`.
    """

    records: Sequence[Record] = ()
    """The rejected values."""
    tasks: Sequence[Plan] = ()
    skip: Sequence[Skip] = ()
    cost: int | None = None
    """The cost of the call, in the lane's units. None if the answer did not contain it; the step's price is then
    assumed and flagged."""
    facts: Mapping[str, int] = field(default_factory=dict)
    updates: Sequence[Record] = ()
    """New values for stored records that were *not* seen: a verification, the next due time. Merged like a sighting,
    but `last_seen_at`, `times_seen` and `gone_at` stay; a key that is not stored is ignored."""
    gone: Sequence[Gone] = ()
    rejected: Sequence[Reject] = ()
    effects: Sequence[Effect] = ()
    """Changes of the pipeline's plain tables: counters that must be exact, the result of a run."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """Try again later. Burns no attempt, but the total wait is limited (`Step.patience`)."""

    wait: float
    reason: str
    """Message for the task's `error` while it waits."""
    give_up_at: datetime | None = None
    """Alternative to the patience: the task fails if the wait would end after this moment."""

    def __post_init__(self) -> None:
        if self.give_up_at is not None and self.give_up_at.tzinfo is None:
            raise ValueError("`give_up_at` needs a time zone: datetime.now(UTC) + …")


@dataclass(frozen=True, slots=True)
class Drop:
    """The task need not be done: it is skipped for this reason."""

    reason: str
    """The reason, such as `not_wanted`."""
    message: str | None = None
    """Message for the task's `error`; None uses the reason."""


@dataclass(frozen=True, slots=True)
class Halt:
    """The whole job cannot continue until an operator acts (a wrong key). The job is paused, the task stays queued."""

    reason: str


Outcome = Done | Snooze | Drop | Halt
