"""One attempt: runs the step of a leased task. Every way in which it can end becomes a `Settlement`; no exception
escapes."""

import traceback
from collections.abc import Callable
from typing import TypedDict

import structlog

from forager.core.clock import Clock
from forager.core.ends import OnTry, TaskTry
from forager.core.errors import (
    Disallowed,
    Evidence,
    ForagerError,
    Permanent,
    PoolExhausted,
    RateLimited,
    Short,
    StoreError,
    Transient,
    Unconfigured,
    Undecodable,
)
from forager.core.ledger import Extras, Lease, Settlement
from forager.core.outcome import MAX_CHILDREN, Done, Drop, Halt, Outcome, Snooze
from forager.core.pipeline import Retry, Step
from forager.core.reasons import ErrorType, Reason
from forager.core.states import TaskState
from forager.core.timing import TimeLimit
from forager.engine.attempt_log import traced
from forager.engine.lane import LONGEST_HOLD, LaneRun
from forager.engine.lane_fetch import LaneFetch, MustSnooze, TooLate
from forager.engine.retry import wait_before_retry, wait_without_attempt
from forager.engine.suspects import WatchedFetch

log = structlog.get_logger("forager.engine")

AFTER_429 = Retry(first=1.0, cap=60.0)
"""Delays after a 429 without a `Retry-After`. They burn no attempt."""
SPREAD = 0.1
"""Jitter, so that tasks that were put back at the same moment do not all return at the same moment."""
SHORT_WAIT = 10.0
"""Seconds until a task is tried again that lacked a proxy or the store …"""
POOL_WAIT = 1.0
"""… and one that lacked a browser: sooner, because no browser should be idle while tasks wait for one."""
AFTER_OTHERS = 1.0
"""Seconds until a task is tried again whose cap is used up by reservations of in-flight tasks, which may be
released."""
PATIENCE = 7 * 24 * 3_600.0
"""Default patience: seconds that a task may wait in vain before it fails."""


class _Told(TypedDict):
    """The parts of a settlement that come from an error."""

    error: str
    reason: str | None
    error_type: ErrorType


async def attempt(
    lease: Lease,
    step: Step | None,
    fetch: LaneFetch,
    lane: LaneRun,
    clock: Clock,
    random: Callable[[], float],
    patience: float = PATIENCE,
) -> Settlement:
    """Run the step of a leased task within its time-out, measured by `clock`. Returns how it ended; raises only when
    cancelled."""
    settlement = await _attempt(lease, step, fetch, lane, clock, random, patience)
    if step is not None and step.on_try is not None:
        _note_try(settlement, step.on_try, clock)
    return settlement


def _note_try(settlement: Settlement, on_try: OnTry, clock: Clock) -> None:
    """Add the effects of a try. A task that was put back before it was tried has none: its lane is closed, or we are
    short of something."""
    was_tried = settlement.state is TaskState.COMPLETED or settlement.burned or settlement.halt or settlement.facts
    task = settlement.lease.task
    if not was_tried or isinstance(task, Undecodable):
        return
    try:
        effects = on_try(task, TaskTry(settlement.state, settlement.error, clock.now()))
    except Exception:
        log.exception("a hook failed", hook="on_try", kind=settlement.lease.kind, key=settlement.lease.key)
        return
    extras = settlement.extras or Extras()
    extras.effects = [*extras.effects, *effects]
    settlement.extras = extras


async def _attempt(
    lease: Lease,
    step: Step | None,
    fetch: LaneFetch,
    lane: LaneRun,
    clock: Clock,
    random: Callable[[], float],
    patience: float,
) -> Settlement:
    if step is not None and step.patience is not None:
        patience = step.patience
    try:
        if isinstance(lease.task, Undecodable):
            raise lease.task
        if step is None:
            raise Undecodable(f"No pipeline has a step for tasks of kind {lease.kind!r}. Install the one that does.")
        if isinstance(fetch, WatchedFetch):
            await fetch.begin()
        async with TimeLimit(clock, step.timeout) as fetch.limit:
            outcome = await step.run(lease.task, fetch)
        if isinstance(fetch, WatchedFetch):
            await fetch.end()
        return _settled(lease, outcome, patience)
    except MustSnooze as snooze:
        in_vain = patience if snooze.in_vain else None
        wait = snooze.wait * (1 + SPREAD * random())
        return _put_back(lease, fetch, snooze.why, wait, in_vain, snooze.reason, snooze.error_type)
    except TooLate:
        return _put_back(lease, fetch, TooLate.__doc__)
    except Disallowed as refusal:
        return Settlement(lease, TaskState.SKIPPED, **_told_of(refusal))
    except Short as short:
        wait = POOL_WAIT if isinstance(short, PoolExhausted) else SHORT_WAIT
        wait *= 1 + SPREAD * random()
        return _put_back(lease, fetch, short.message, wait, patience, short.reason, short.error_type)
    except StoreError as error:  # the step needed a lane or a robots.txt while the store was unavailable
        wait = SHORT_WAIT * (1 + SPREAD * random())
        return _put_back(lease, fetch, error.message, wait, None, error.reason, error.error_type)
    except RateLimited as error:
        if not fetch.slowed:
            lane.slow_down(error.retry_after)
        wait = _wait_of_429(lease, error, random)
        told = _told_of(error)
        return Settlement(
            lease, TaskState.WAITING, wait=wait, burned=False, facts=error.facts, patience=patience, **told
        )
    except Transient as error:
        retry = error.retry or (step.retry if step else None) or lane.policy.retry
        return _failed_for_now(lease, error, retry, random)
    except TimeoutError:
        late = Transient(
            f"It did not end within {step.timeout if step else 0:g} s.",
            maybe_done=fetch.sent,
            reason=Reason.TIMED_OUT,
        )
        retry = (step.retry if step else None) or lane.policy.retry
        if step is not None and step.when_late == "fail":
            return _failed(lease, late, None)
        return _failed_for_now(lease, late, retry, random)
    except Unconfigured as error:
        return Settlement(lease, TaskState.READY, burned=False, halt=error.message, **_told_of(error))
    except Permanent as error:
        told_nothing = not error.cost and not error.facts  # for example, a response that our own size limit refused
        guessed = _guess(lease, fetch.sent and told_nothing)
        return Settlement(
            lease,
            TaskState.FAILED,
            cost=error.cost or guessed,
            guessed=guessed,
            facts=error.facts,
            evidence=error.evidence,
            tried=traced(error),
            **_told_of(error),
        )
    except Exception as error:  # noqa: BLE001 - a defect in one step must not stop the others; it becomes a dead letter
        guessed = _guess(lease, fetch.sent)
        return Settlement(
            lease,
            TaskState.FAILED,
            cost=guessed,
            guessed=guessed,
            error=f"The step broke: {type(error).__name__}: {error}",
            reason=Reason.STEP_BROKE,
            error_type=ErrorType.INTERNAL,
            evidence=Evidence("".join(traceback.format_exception(error)).encode()),
            tried=traced(error),
        )


def capped(lease: Lease, step: Step | None, lane: LaneRun) -> Settlement:
    """Return the end of a task for which its lane's caps leave no units: skipped or put back, as its step declares."""
    why = f"{lane.name} has spent what it may."
    if step is not None and step.when_capped == "skip":
        return Settlement(lease, TaskState.SKIPPED, error=why, reason=Reason.LIMIT)
    wait = lane.capped_for(lease.price) or AFTER_OTHERS
    return Settlement(lease, TaskState.WAITING, wait=wait, burned=False, error=why, reason=Reason.LIMIT)


def given_up(lease: Lease, cost: int = 0, why: str = "Given back at a stop.") -> Settlement:
    """Return the settlement of an attempt that is stopped: back to the queue without burning an attempt. A request that
    was sent is assumed to be charged."""
    return Settlement(lease, TaskState.READY, cost=cost, guessed=cost, burned=False, error=why)


def _settled(lease: Lease, outcome: Outcome, patience: float) -> Settlement:
    match outcome:
        case Done():
            if len(outcome.tasks) > MAX_CHILDREN:
                raise Permanent(
                    f"{len(outcome.tasks)} children in one outcome; hand over at most {MAX_CHILDREN} at once.",
                    cost=lease.price if outcome.cost is None else outcome.cost,
                    reason=Reason.TOO_MANY_CHILDREN,
                )
            return Settlement(
                lease,
                TaskState.COMPLETED,
                cost=lease.price if outcome.cost is None else outcome.cost,
                guessed=lease.price if outcome.cost is None else 0,
                facts=outcome.facts,
                records=outcome.records,
                tasks=outcome.tasks,
                skip=outcome.skip,
                extras=_extras(outcome),
            )
        case Snooze():
            return Settlement(
                lease,
                TaskState.WAITING,
                wait=outcome.wait,
                burned=False,
                error=outcome.reason,
                patience=patience,
                give_up_at=None if outcome.give_up_at is None else round(outcome.give_up_at.timestamp() * 1000),
            )
        case Drop():
            message = outcome.reason if outcome.message is None else outcome.message
            return Settlement(lease, TaskState.SKIPPED, error=message, reason=outcome.reason)
        case Halt():
            why = outcome.reason
            return Settlement(lease, TaskState.READY, burned=False, error=why, reason=Reason.UNCONFIGURED, halt=why)
        case _:
            raise TypeError(f"it returned {outcome!r}, which is not an outcome")


def _extras(done: Done) -> Extras | None:
    if done.updates or done.gone or done.rejected or done.effects:
        return Extras(done.updates, done.gone, done.rejected, done.effects)
    return None


def _failed_for_now(lease: Lease, error: Transient, retry: Retry, random: Callable[[], float]) -> Settlement:
    return _failed(lease, error, wait_before_retry(retry, lease.attempt, random, lease.retries))


def _failed(lease: Lease, error: Transient, wait: float | None) -> Settlement:
    """Return a failed attempt, retried after `wait` seconds; None means no more retries."""
    cost = _guess(lease, error.maybe_done)
    state = TaskState.FAILED if wait is None else TaskState.WAITING
    told, tried = _told_of(error), traced(error)
    return Settlement(lease, state, cost=cost, guessed=cost, wait=wait or 0.0, facts=error.facts, tried=tried, **told)


def _wait_of_429(lease: Lease, error: RateLimited, random: Callable[[], float]) -> float:
    if error.retry_after is None:
        return wait_without_attempt(error.retry or AFTER_429, (lease.waited or 0) / 1000, random)
    return min(max(error.retry_after, AFTER_429.first), LONGEST_HOLD) * (1 + SPREAD * random())


def _put_back(
    lease: Lease,
    fetch: LaneFetch,
    why: str | None,
    wait: float = 0.0,
    patience: float | None = None,
    reason: str | None = None,
    error_type: str | None = None,
) -> Settlement:
    """Return the task to the queue without burning an attempt. A request that was sent is assumed to be charged."""
    cost = _guess(lease, fetch.sent)
    return Settlement(
        lease,
        TaskState.WAITING if wait else TaskState.READY,
        cost=cost,
        guessed=cost,
        wait=wait,
        burned=False,
        error=why,
        reason=reason,
        error_type=error_type,
        patience=patience,
    )


def _told_of(error: ForagerError) -> _Told:
    return {"error": error.message, "reason": error.reason, "error_type": error.error_type}


def _guess(lease: Lease, maybe_done: bool) -> int:
    """Return the assumed cost: the price, if the upstream may have executed the call although no answer came."""
    return lease.price if maybe_done else 0
