"""Decides whether and when a failed attempt is retried. No other module does."""

from collections.abc import Callable
from itertools import count

from forager.core.retry import Retry

JITTER = 0.1


def wait_before_retry(
    retry: Retry, attempt: int, random: Callable[[], float], limit: int | None = None
) -> float | None:
    """Return the seconds until the next try after failed attempt number `attempt` (from 1), or None for no more tries.

    Delays in a table are minimums: the cap is applied first, then jitter adds at most a tenth. `limit` is the task's
    own number of retries, which overrides that of `retry`.
    """
    if attempt > (retry.limit if limit is None else limit):
        return None
    return retry.delay(attempt) * (1 + JITTER * random())


def wait_without_attempt(retry: Retry, waited: float, random: Callable[[], float]) -> float:
    """Return the seconds to wait after a call that burned no attempt, such as a 429 without `Retry-After`.

    No attempt is counted, so the delay is derived from the seconds that the task has `waited` already: with delays of
    1, 2, 4 … seconds, a task that has waited 3 waits 4. The task's patience ends it, not a number of tries.
    """
    so_far = 0.0
    for number in count(1):
        delay = retry.delay(number)
        so_far += delay
        if waited < so_far or delay >= retry.cap or (retry.delays and number >= len(retry.delays)):
            return delay * (1 + JITTER * random())
    raise AssertionError("unreachable")
