"""The waits of the engine: how long a task, a request, a lane and the worker wait, and how often a task is retried.

All of them are here, in seconds; no other module of work and lanes has any. What a site, a policy file or a pipeline
decides (`Retry-After`, hours, rates, the delays of a `Retry`) is bounded here and applied where it occurs. Intervals of
the other loops (schedules, rechecks, upkeep) are in their own modules.
"""

from collections.abc import Callable
from itertools import count

from forager.core.errors import Retry

# ── a task, until its next attempt ──

SPREAD = 0.1
"""Jitter as a share of a wait: tasks that were put back together must not all return together."""
AFTER_429 = Retry(first=1.0, cap=60.0)
"""Delays after a 429 without a `Retry-After`. They burn no attempt."""
LONGEST_HOLD = 3_600.0
"""A `Retry-After` or a crawl-delay of more than an hour is obeyed for an hour; then the site is tried again."""
SHORT_WAIT = 10.0
"""No proxy is available, or the store does not answer …"""
POOL_WAIT = 1.0
"""… or no browser is: shorter, because no browser should be idle while tasks wait for one."""
AFTER_OTHERS = 1.0
"""The cap is used up by reservations of in-flight tasks, which may be released."""
ELSEWHERE = 5.0
"""A request needs a lane that another worker owns, or that is paused …"""
BUSY = 1.0
"""… or one with as many requests in flight as it may have …"""
AT_ONCE = 0.05
"""… or one that has just gone to another worker."""
PATIENCE = 7 * 24 * 3_600.0
"""Total seconds that a task may wait, without using an attempt, for something that may never recover."""

# ── a request, inside an attempt ──

LONGEST_WAIT_INSIDE = 5.0
"""A request that would wait longer than this for its lane returns its task to the queue."""
LONGEST_TAIL = 60.0
"""Maximum wait of a request that cannot be resumed later, such as a redirect with its own headers."""

# ── a lane ──

HORIZON = 0.1
"""Time before its start at which a task may be leased, so that the lane never has to wait for the store …"""
AHEAD = 2.0
"""… and the same for a batch. A request that must wait longer than `LONGEST_WAIT_INSIDE` would return to the queue."""
SLOW_START = 60.0
"""Time in which a lane returns to its full rate after its breaker has closed."""
IDLE_BEFORE_GIVING_BACK = 2.0
"""A lane without work is given back after this time."""
CLOSED_FOR_LONG = 60.0
"""A lane that cannot send for this time is given back until then …"""
RESTS_FOR_LONG = 3.0
"""… and, while other lanes wait for a slot, already one that cannot send for this time."""
LONGEST_REST = 24 * 3_600.0
"""Such a lane is taken again after this time at the latest, however slow its rules are …"""
LONGEST_CAP_REST = 600.0
"""… and one that was given back because of its cap after this time: the cap may have been raised."""
QUANTUM = 10.0
"""A lane that has work is kept for this time before it makes room, for another lane or for another session."""
CROWDED_LOOK = 1.0
"""Interval at which a worker with its maximum number of lanes checks whether other lanes wait for a slot."""
SHARE_HOLDS = 1.0
"""Time for which an answer of the store is used: our fair share of lanes …"""
TURNS_HOLD = 0.1
"""… the turns of our lanes …"""
WAITING_HOLDS = 0.1
"""… as a part of the quantum, the lanes that wait for a slot, which may be thousands …"""
OPEN_HOLDS = 1.0
"""… and that a lane of another task is not paused."""

# ── the worker ──

LINGER = 0.005
"""Time after the end of an attempt in which others are collected, because a group costs one commit …"""
TOGETHER = 0.02
"""… and the same for a batch."""
POLL = 1.0
"""Interval at which a worker looks for work by itself, because the store may not announce all of it."""
SUSPECT_PAUSE = 1.0
"""Time until a worker checks again for suspects after it found none that it may run."""
BACK_OFF = (0.1, 0.5, 1.0, 2.0)
"""Waits after the first, second … failure of the store in a row; the last one repeats."""


def back_off(failures: int) -> float:
    """Return the wait after this number of earlier failures of the store in a row."""
    return BACK_OFF[min(failures, len(BACK_OFF) - 1)]


def spread(wait: float, random: Callable[[], float]) -> float:
    """Return a wait with jitter, which adds at most a tenth."""
    return wait * (1 + SPREAD * random())


def wait_before_retry(
    retry: Retry, attempt: int, random: Callable[[], float], limit: int | None = None
) -> float | None:
    """Return the wait until the next try after failed attempt number `attempt` (from 1), or None for no more tries.

    Delays in a table are minimums: the cap is applied first, then jitter is added. `limit` is the task's own number of
    retries, which overrides that of `retry`.
    """
    if attempt > (retry.limit if limit is None else limit):
        return None
    return spread(retry.delay(attempt), random)


def wait_after_429(retry: Retry | None, retry_after: float | None, waited: float, random: Callable[[], float]) -> float:
    """Return the wait after a 429: the site's `Retry-After`, within bounds, or else a delay of `retry`."""
    if retry_after is None:
        return wait_without_attempt(retry or AFTER_429, waited, random)
    return spread(min(max(retry_after, AFTER_429.first), LONGEST_HOLD), random)


def wait_without_attempt(retry: Retry, waited: float, random: Callable[[], float]) -> float:
    """Return the wait after a call that burned no attempt, such as a 429 without `Retry-After`.

    No attempt is counted, so the delay is derived from the seconds that the task has `waited` already: with delays of
    1, 2, 4 … seconds, a task that has waited 3 waits 4. The task's patience ends it, not a number of tries.
    """
    so_far = 0.0
    for number in count(1):
        delay = retry.delay(number)
        so_far += delay
        if waited < so_far or delay >= retry.cap or (retry.delays and number >= len(retry.delays)):
            return spread(delay, random)
    raise AssertionError("unreachable")
