"""One attempt: runs the step of a leased task. Every way in which it can end becomes a `Settlement`; no exception
escapes."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import structlog

from forager.core.clock import Clock, TimeLimit
from forager.core.errors import (
    Capped,
    Disallowed,
    Evidence,
    ForagerError,
    Permanent,
    PoolExhausted,
    RateLimited,
    Retry,
    Short,
    StoreError,
    Transient,
    Unconfigured,
    Undecodable,
)
from forager.core.http import Request, Response
from forager.core.ledger import Extras, Lease, Settlement, Tried
from forager.core.outcome import MAX_CHILDREN, Done, Drop, Halt, Outcome, Snooze
from forager.core.pipeline import OnTry, Step, TaskTry
from forager.core.states import ErrorType, Reason, TaskState
from forager.engine.lanes.fetch import LaneFetch, MustSnooze, TooLate, not_due
from forager.engine.lanes.lane import LaneRun
from forager.engine.waits import (
    AFTER_OTHERS,
    LONGEST_CAP_REST,
    LONGEST_WAIT_INSIDE,
    PATIENCE,
    POOL_WAIT,
    SHORT_WAIT,
    SUSPECT_PAUSE,
    spread,
    wait_after_429,
    wait_before_retry,
)

# Values of the log of attempts: start, duration, and the place in the code at which an attempt failed.
#
# A successful attempt is not stored, unless its step keeps every attempt.


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


def step_times(fetch: LaneFetch, took: float) -> dict[str, int]:
    """Return what an attempt spent its time on, as facts: waiting for lanes, fetching, and its own work, mostly
    parsing. Times below a millisecond are left out, since every task of a job stores them."""
    waited, fetched = fetch.seconds_in_lane, fetch.seconds_fetching
    times = {"lane_ms": waited, "fetch_ms": fetched, "parse_ms": took - waited - fetched}
    return {name: round(seconds * 1000) for name, seconds in times.items() if seconds >= 0.0005}


# Decides when a worker leases suspects (tasks that were in flight when a worker died), and watches the one that runs
# alone.
#
# One of them may have killed the worker (an endless loop, a crash in native code), and would kill the next one as well,
# with everything else in it. So suspects run in groups that halve with every further crash, and nothing else runs at
# the same time: only then does a crash incriminate the group and not some other task. A group that ends clears its
# members; a task that crashes its worker while alone, repeatedly, becomes a dead letter. Innocent tasks use no attempt.
#
# A process can also be killed from outside while a suspect is leased and has done nothing yet: after a restart its lane
# may hold the first request back for seconds. So a crash counts only after the step has begun, which is stored before
# the step runs. It is also stored when the step waits for an answer: a crash at such a moment is weaker evidence, and
# must happen more often. This costs two small writes per request, and only for a suspect that runs alone.
# `ledger/*/control.py` forms the groups and judges; see docs/decisions/0001.


class SuspectLook:
    def __init__(self) -> None:
        self.at: float | None = None
        """Monotonic time of the next question; None while no suspects are known."""
        self._not_before = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether suspects are waiting. While they are, nothing else is leased: they start when all in-flight
        tasks have ended."""
        return self.at is not None and now >= self.at

    def expect(self, now: float) -> None:
        """Note that the store has suspects."""
        if self.at is None:
            self.at = max(now, self._not_before)

    def found_none(self, now: float) -> None:
        """Note that no suspect may run here now; a later batch reports whether some are left."""
        self.at, self._not_before = None, now + SUSPECT_PAUSE


class WatchedFetch(LaneFetch):
    """The `Fetch` of a suspect that runs alone. `mark(waits)` records in the ledger what its step does next."""

    def __init__(self, mark: Callable[[bool], Awaitable[bool]], *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._mark = mark

    async def begin(self) -> None:
        """Wait until the lane would admit the first request, then record that the step begins. Call it before the step.

        The wait comes first, because a task that only waits for its lane has done nothing that could kill a process.
        """
        if self._is_planned:
            self._is_planned = False
            if too_long := await self.lane.wait_to_send(self._ticket, LONGEST_WAIT_INSIDE):
                raise not_due(self.lane, too_long, is_own=True)
            self.lane.gave_up()  # nothing is sent yet: the first request starts by itself, and finds its lane open
        await self._note(waits=False)

    async def end(self) -> None:
        """Record that the step has run: what is left is to store its result, at which no process dies of the task."""
        await self._note(waits=True)

    async def __call__(self, request: Request) -> Response:
        await self._note(waits=True)
        try:
            response = await super().__call__(request)
        except Exception:
            await self._note(waits=False)
            raise
        await self._note(waits=False)
        return response

    async def _note(self, *, waits: bool) -> None:
        if not await self._mark(waits):
            raise TooLate


log = structlog.get_logger("forager.engine")


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
        log.exception("hook_failed", hook="on_try", kind=settlement.lease.kind, key=settlement.lease.key)
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
        wait = spread(snooze.wait, random)
        return _put_back(lease, fetch, snooze.why, wait, in_vain, snooze.reason, snooze.error_type)
    except TooLate:
        return _put_back(lease, fetch, TooLate.__doc__)
    except Disallowed as refusal:
        return Settlement(lease, TaskState.SKIPPED, **_told_of(refusal))
    except Capped as capped_by:  # not in vain: the period of a cap always ends
        wait = spread(min(capped_by.wait, LONGEST_CAP_REST), random)
        return _put_back(lease, fetch, capped_by.message, wait, None, capped_by.reason, capped_by.error_type)
    except Short as short:
        wait = spread(POOL_WAIT if isinstance(short, PoolExhausted) else SHORT_WAIT, random)
        return _put_back(lease, fetch, short.message, wait, patience, short.reason, short.error_type)
    except StoreError as error:  # the step needed a lane or a robots.txt while the store was unavailable
        wait = spread(SHORT_WAIT, random)
        return _put_back(lease, fetch, error.message, wait, None, error.reason, error.error_type)
    except RateLimited as error:
        if not fetch.slowed:
            lane.slow_down(error.retry_after)
        wait = wait_after_429(error.retry, error.retry_after, (lease.waited or 0) / 1000, random)
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
    why = f"{lane.name} has reached its cap on spending."
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
