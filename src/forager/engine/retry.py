"""The one place where it is decided whether and when a failed call is made again."""

from collections.abc import Callable

from forager.core.pipeline import Retry

JITTER = 0.1


def wait_before_retry(retry: Retry, attempt: int, random: Callable[[], float]) -> float | None:
    """Seconds until the next try after failed attempt number `attempt` (from 1), or None: no more tries.

    Tabled delays are minimums: the cap comes first, then jitter adds at most a tenth.
    """
    delay = _tabled(retry, attempt)
    return None if delay is None else delay * (1 + JITTER * random())


def _tabled(retry: Retry, attempt: int) -> float | None:
    if retry.delays is not None:
        return retry.delays[attempt - 1] if attempt <= len(retry.delays) else None
    return min(retry.cap, retry.first * 2.0 ** (attempt - 1)) if attempt <= retry.times else None
