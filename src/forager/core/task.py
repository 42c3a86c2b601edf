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
    """Fields that hold the `blob:` URL of a stored page: it is kept until the task has ended well or was given up."""

    def key(self) -> str:
        """Identity inside a job, together with the kind."""
        raise NotImplementedError

    def lane(self) -> str:
        """Whose politeness it needs."""
        raise NotImplementedError


# Made for every task of a job: freezing it would cost more than the rest of it.
@dataclass(slots=True, unsafe_hash=True)
class Plan:
    """A task to be done: its order inside the job, and the task of the same kind that must end well before it."""

    task: Task
    rank: int = 0
    after: str | None = None
    due: datetime | None = None
    """The task does not run before this moment, which needs a time zone. None: as soon as there is room."""
    retries: int | None = None
    """How often it is retried, instead of its step's or lane's number; the delays stay theirs."""
