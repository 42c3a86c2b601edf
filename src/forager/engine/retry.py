"""The one place where it is decided whether and when a failed call is made again."""

from collections.abc import Callable
from itertools import count

from forager.core.retry import Retry

JITTER = 0.1


def wait_before_retry(
    retry: Retry, attempt: int, random: Callable[[], float], limit: int | None = None
) -> float | None:
    """Seconds until the next try after failed attempt number `attempt` (from 1), or None: no more tries.

    Tabled delays are minimums: the cap comes first, then jitter adds at most a tenth. `limit` is the task's own number
    of retries, which stands above that of `retry`.
    """
    if attempt > (retry.limit if limit is None else limit):
        return None
    return retry.delay(attempt) * (1 + JITTER * random())


def wait_without_attempt(retry: Retry, waited: float, random: Callable[[], float]) -> float:
    """Seconds to wait after a call that burned no attempt, such as a 429 that does not say when to come back.

    No attempt is counted for it, so how far the delays have grown follows from the seconds that the task has `waited`
    already: with delays of 1, 2, 4 … seconds, a task that has waited 3 waits 4. The task's patience ends it, not a
    number of tries.
    """
    so_far = 0.0
    for number in count(1):
        delay = retry.delay(number)
        so_far += delay
        if waited < so_far or delay >= retry.cap or (retry.delays and number >= len(retry.delays)):
            return delay * (1 + JITTER * random())
    raise AssertionError("unreachable")
