"""Which attempts are kept, and what is kept of them: the part of the log of attempts that both ledgers share. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from forager.core.ledger import Settlement
from forager.core.states import TaskState
from forager.ledger.shared.text import clean_or_none

LOST = "lost"
GIVEN_BACK = "given_back"
DIED = "Its worker died while it ran."
_ENDS = {TaskState.COMPLETED: "completed", TaskState.FAILED: "failed", TaskState.SKIPPED: "skipped"}


class AttemptRow(NamedTuple):
    """In the order of `COLUMNS`."""

    task_id: int
    attempt: int
    started_at: int
    duration_ms: int
    status: str
    reason: str | None
    error_type: str | None
    message: str | None
    traceback: str | None


COLUMNS = ", ".join(AttemptRow._fields)


def attempt_rows(live: Iterable[Settlement]) -> list[AttemptRow]:
    """Return the rows for settlements that passed the fence, once it is known which of them have failed."""
    return [row for s in live if s.tried is not None and (row := _row(s)) is not None]


def _row(s: Settlement) -> AttemptRow | None:
    tried, status = s.tried, _status(s)
    if tried is None or not (tried.always or status == "failed"):
        return None
    lease = s.lease
    why = (s.reason, s.error_type, clean_or_none(s.error), clean_or_none(tried.trace))
    return AttemptRow(lease.task_id, lease.attempt, tried.started_at, tried.duration_ms, status, *why)


def _status(s: Settlement) -> str:
    """Return how the attempt itself ended: one that is retried has failed as well."""
    if s.state in _ENDS:
        return _ENDS[s.state]
    if s.burned:
        return "failed"
    return "snoozed" if s.state is TaskState.WAITING else GIVEN_BACK
