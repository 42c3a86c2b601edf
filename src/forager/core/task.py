"""Tasks: one leased unit of work in a job. A subclass per step is the typed input of that step."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Task(BaseModel):
    """Typed input of one step. `kind` is its stable name in the ledger, never a class path."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Former kinds: rows written under them still decode after a rename."""

    blobs: ClassVar[tuple[str, ...]] = ()
    """Fields that hold the `blob:` URL of a stored page, or a mapping of some: it is kept until the task is completed
    or discarded."""

    def key(self) -> str:
        """Return the identity inside a job, together with the kind."""
        raise NotImplementedError

    def lane(self) -> str:
        """Return the name of the lane that paces its requests."""
        raise NotImplementedError


# Created for every task of a job. It is not frozen, because that would cost more than the rest of it.
@dataclass(slots=True, unsafe_hash=True)
class Plan:
    """A task to be created: its order inside the job, and the task of the same kind that must be completed before
    it."""

    task: Task
    rank: int = 0
    after: str | None = None
    due: datetime | None = None
    """The task does not run before this moment, which needs a time zone. None: as soon as there is room."""
    retries: int | None = None
    """Number of retries, instead of its step's or lane's; the delays stay theirs."""
