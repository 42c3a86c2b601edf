"""What the log of attempts stores: when an attempt began, how long it took, where in the code it failed.

A successful attempt is not stored, unless its step keeps every attempt.
"""

import traceback

from forager.core.clock import Clock
from forager.core.errors import ForagerError
from forager.core.ledger import Settlement, Tried
from forager.core.pipeline import Step
from forager.core.states import TaskState

LONGEST_TRACE = 8_000
MOST_FRAMES = 20


def traced(error: Exception) -> Tried:
    """Return where an error was raised. For our own errors only the code locations are kept, because their causes may
    quote a URL or a response that the message leaves out on purpose."""
    if isinstance(error, ForagerError):
        frames = traceback.format_tb(error.__traceback__, -MOST_FRAMES)
        text = "".join([*frames, f"{type(error).__name__}: {error.message}"])
    else:
        text = "".join(traceback.format_exception(error))
    return Tried(text[-LONGEST_TRACE:])


def time_attempt(settlement: Settlement, step: Step | None, clock: Clock, began: float) -> float:
    """Record start and duration of the attempt in its settlement, if it may be kept. Returns the duration.

    `began` is the clock's `monotonic` at the start.
    """
    took, always = clock.monotonic() - began, step is not None and step.attempts
    if settlement.state is TaskState.COMPLETED and not always:
        return took
    tried = settlement.tried = settlement.tried or Tried()
    tried.started_at = round((clock.now().timestamp() - took) * 1000)
    tried.duration_ms = round(took * 1000)
    tried.always = always
    return took
