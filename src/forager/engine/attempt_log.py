"""What the log of attempts keeps of one: when it began, how long it took, where in the code it failed.

An attempt that ends well costs nothing here, unless its step keeps every attempt.
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
    """Where an error was raised. Of our own errors only the lines of code are kept: what caused them may quote an
    address or an answer that their message leaves out on purpose."""
    if isinstance(error, ForagerError):
        frames = traceback.format_tb(error.__traceback__, -MOST_FRAMES)
        text = "".join([*frames, f"{type(error).__name__}: {error.message}"])
    else:
        text = "".join(traceback.format_exception(error))
    return Tried(text[-LONGEST_TRACE:])


def time_attempt(settlement: Settlement, step: Step | None, clock: Clock, began: float) -> float:
    """Note when the attempt began and how long it took, if it may be kept; returns how long it took.

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
