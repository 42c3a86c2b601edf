"""Decides when a task that waits in vain fails. It applies only to waits that burn no attempt.

Only the waits themselves count, not the calendar: a night outside the allowed hours, a spent cap, a paused job or a
stopped process between two waits count for almost nothing.
"""

from collections.abc import Iterable, Mapping

from forager.core.ledger import Settlement
from forager.core.reasons import ErrorType, Reason
from forager.core.states import TaskState

SHARE = 24
"""Between the end of a wait and the next try a task stands in the queue, for whatever reason: at most this part of its
patience is counted for that. So nothing is given up before it was tried so many times."""

Known = Mapping[int, tuple[int | None, int | None]]
"""By task: `waited` and `waited_until` of its row."""
NewWait = tuple[int, int, int]
"""`waited`, `waited_until`, task."""


def in_vain(settlements: Iterable[Settlement]) -> list[Settlement]:
    """Return the settlements that wait in vain."""
    return [s for s in settlements if s.patience is not None or s.give_up_at is not None]


def wait_or_give_up(settlements: Iterable[Settlement], known: Known, now: int) -> list[NewWait]:
    """What to write about those that wait once more. The others have failed from now on: their settlement says so."""
    waits: list[NewWait] = []
    for s in settlements:
        waited = _waited(s, *known.get(s.lease.task_id, (None, None)), now)
        until = now + round(s.wait * 1000)
        if s.give_up_at is not None:
            enough = until > s.give_up_at
        else:
            enough = s.patience is not None and waited >= s.patience * 1000
        if enough:
            s.state, s.error, s.wait = TaskState.FAILED, _last_words(s, waited), 0.0
            s.reason, s.error_type = s.reason or Reason.GAVE_UP, s.error_type or ErrorType.INTERNAL
        else:
            waits.append((waited + until - now, until, s.lease.task_id))
    return waits


def _waited(s: Settlement, waited: int | None, until: int | None, now: int) -> int:
    """Return the total so far: the waits themselves, and a little for the time since the last one."""
    since = 0 if until is None else max(0, now - until)
    if s.patience is not None:
        since = min(since, round(s.patience * 1000 / SHARE))
    return (waited or 0) + since


def _last_words(s: Settlement, waited: int) -> str:
    error = f"{(s.error or 'It had to wait').rstrip('. ')}."
    spent = f"after {_duration(waited)} of waiting in vain" if waited >= 1000 else "because it had to wait too long"
    return f"{error} Given up {spent}; retry it when the cause is mended: forager jobs retry, or forager dead retry."


def _duration(milliseconds: int) -> str:
    seconds = milliseconds / 1000
    for length, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds"
