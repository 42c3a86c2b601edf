"""Rechecks: rules that turn records whose time has come into tasks, such as a recrawl or a verification.

Such a record has a due time: a quiet field, with a partial index on it. When the time has come, the recheck creates a
task from the record in its own standing job and clears the due time, both in one transaction. The step that performs
the task sets the next due time with the record that it finds; its `on_end` hook sets it for tasks that fail.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Protocol
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from forager.core.clock import in_seconds
from forager.core.ids import checked_name
from forager.core.record import Record
from forager.core.task import Plan, Task

MOST_AT_ONCE = 1_000
"""Records that become tasks in one transaction, at most."""

MakeTask = Callable[[Any], Plan | Task | None]
"""record → its task. A pure function."""


LEAST_INTERVAL, MOST_INTERVAL = 60, 366 * 86_400


def _sensible(seconds: int) -> int:
    if not LEAST_INTERVAL <= seconds <= MOST_INTERVAL:
        raise ValueError("must be at least a minute and at most 366 days; write it with its unit, such as 6h or 1d")
    return seconds


Interval = Annotated[
    int,
    BeforeValidator(in_seconds),
    AfterValidator(_sensible),
    WithJsonSchema({"type": "integer", "minimum": LEAST_INTERVAL, "maximum": MOST_INTERVAL}),
]
"""Seconds between two visits of a record, as a field of a job or a request; a text such as `6h` is read."""

STANDING_JOBS = " recheck"
"""Beginning of the idempotency keys of all standing jobs, before a slash."""


@dataclass(frozen=True, slots=True)
class Recheck:
    """A rule of a pipeline. Make one with `recheck`."""

    record: type[Record]
    due: str
    """The field that holds the due time."""
    task: MakeTask
    name: str
    """Unique over all pipelines."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of the standing job, as its reports show them."""
    by: str | None = None
    """A field of the record: each of its values has a standing job of its own."""

    def __post_init__(self) -> None:
        checked_name(self.name)

    @property
    def job_key(self) -> str:
        """Return the idempotency key of the standing job. A key that a user sends cannot begin with a space."""
        return f"{STANDING_JOBS}/{self.name}"

    def job_key_of(self, value: str) -> str:
        """Return the idempotency key of the standing job for one value of the field `by`."""
        return f"{self.job_key}/{value}"

    @property
    def condition(self) -> str:
        """Return the condition of the partial index that the recheck needs."""
        return f"{self.due} IS NOT NULL"


def recheck(
    record: type[Record],
    *,
    due: str,
    task: MakeTask,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
    by: str | None = None,
) -> Recheck:
    """Turn records of this class into tasks when the time in their field `due` has come.

    `task` makes the task of a record, as a `Task` or, with a rank, a due time to spread the work, or a number of
    retries, as a `Plan`. It may run more than once for one due time; its result counts once. None creates no task, and
    the due time is cleared all the same. If it raises, the record is tried again an hour later, and `forager rechecks
    list` shows the error.

    Tasks are added to one standing job, with the parameters `params`. With `by`, each value of that field has a job of
    its own, so that people can pause one of them; the value is among its parameters. A task with the same key
    that has ended is queued again. One that is still open stays as it is, so a record has one open task at most. `name`
    is unique over all pipelines; the default is the record's kind and the field.

    The class must declare `due` as a quiet field of type `datetime | Clear | None` and an index for it:
    `Index(("next_at",), where="next_at IS NOT NULL")`. Otherwise the catalog raises `Rejected` at the start.
    """
    return Recheck(record, due, task, name or f"{record.kind}.{due}", params or {}, by)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The result of one page of a recheck."""

    records: int = 0
    """Due times that were cleared …"""
    tasks: int = 0
    """… and tasks that were created or queued again for them."""
    postponed: int = 0
    """Records whose task could not be made: they are tried again later."""
    more: bool = False
    """The page was full: more records may be due."""
    next_due: int | None = None
    """Unless there is more: the earliest due time that is left, in Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class RecheckStatus:
    """The state of a recheck, for people and monitors."""

    name: str
    pipeline: str
    record: str
    """The kind of its records."""
    due_field: str
    paused: bool
    due: int
    """Records whose time has come; counted up to a limit."""
    oldest_due: datetime | None
    """The due time that has passed for longest …"""
    late: float
    """… and how many seconds ago that was."""
    next_due: datetime | None
    """The next one that is still to come."""
    dispatched: int
    """Number of records that it has turned into tasks."""
    last_at: datetime | None
    error: str | None
    """The last error of its task function, until a page passes without one."""
    error_at: datetime | None
    job: UUID | None
    """Its standing job, once there is one; None if it has several."""


class Rechecks(Protocol):
    """The stored state of rechecks, apart from their records."""

    async def statuses(self) -> list[RecheckStatus]:
        """Return all declared rechecks, by name."""
        ...

    async def pause(self, name: str, *, paused: bool) -> None:
        """A paused recheck creates no task; what comes due meanwhile waits. Raises `NotFound`."""
        ...
