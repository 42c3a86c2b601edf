"""One lane as its owner sees it: what may start now, what is in flight, whether it was asked to slow down.

Politeness belongs here and nowhere else. What must survive a restart or a change of owner is in `state()`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from forager.core.clock import Clock
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.engine.limiter import Limiter

HORIZON = 0.1
"""Tasks are leased so many seconds before they may start, so that the lane never waits for the store."""
LONGEST_HOLD = 3_600.0
"""A `Retry-After` beyond an hour is obeyed for an hour, then asked again."""


class LaneRun:
    def __init__(self, owned: OwnedLane, policy: Lane, clock: Clock) -> None:
        self.id = owned.id
        self._epoch = owned.epoch
        self.policy = policy
        self.in_flight = 0
        self.reserved = 0
        self.hungry = True
        """Whether a lease may find something: not after one came back short, until something happens."""
        self.due: float | None = None
        """Monotonic time at which a waiting task is due."""
        self._clock = clock
        self._limiter = Limiter(policy.rate, policy.per, policy.burst)
        self._slow_until = 0.0
        self._hold_until = 0.0
        self._day = self._today()
        self._spent_day, self._spent_month = owned.spent_day, owned.spent_month
        self._restore(owned)

    def most(self, free: int) -> int:
        """How many tasks may be leased now, with `free` places in the process."""
        now = self._clock.monotonic()
        if self._slow_until and now >= self._slow_until:
            self._slow_until = 0.0
            self._limiter.slow_to(1.0)
        room = self.room(free)
        return self._limiter.available(now, HORIZON, room) if room > 0 else 0

    def room(self, free: int) -> int:
        """How many more may be in flight, whatever the rate says."""
        return max(0, min(free, self.policy.concurrency - self.in_flight, self._affordable()))

    def start(self, price: int) -> float:
        """A task goes into flight; returns when its request is planned."""
        self.in_flight += 1
        self.reserved += price
        return self.plan_request()

    def plan_request(self) -> float:
        """When the next request of a task in flight may be sent, as planned now."""
        return self._limiter.plan(self._clock.monotonic())

    async def wait_to_send(self, at: float, longest: float) -> float:
        """Until the planned moment, and then until the window really has room: returns 0.

        A wait of more than `longest` seconds is not begun; its length is returned instead.
        """
        while True:
            now = self._clock.monotonic()
            if at <= now:
                at = self._limiter.start(now)
                if at <= now:
                    return 0.0
            if at - now > longest:
                return at - now
            await self._clock.sleep(at - now)

    def left(self) -> None:
        """A request that was allowed to be sent has left us."""
        self._limiter.left(self._clock.monotonic())

    def gave_up(self) -> None:
        """It never left: no connection came about."""
        self._limiter.gave_up()

    def end(self, price: int, cost: int) -> None:
        self.in_flight -= 1
        self.reserved -= price
        self._new_day()
        self._spent_day += cost
        self._spent_month += cost
        self.hungry = True

    def slow_down(self, retry_after: float | None) -> None:
        """The upstream asked for fewer calls. Asking again restarts the period and does not slow down further."""
        now = self._clock.monotonic()
        self._limiter.slow_to(1.0 - self.policy.slow_by)
        self._slow_until = now + self.policy.slow_for
        if retry_after:
            self._hold_until = now + min(retry_after, LONGEST_HOLD)
            self._limiter.hold_until(self._hold_until)

    def wake_time(self, now: float) -> float | None:
        """When it is worth looking at the lane again, if nothing else happens before."""
        if not self.hungry:
            return self.due
        if self.in_flight >= self.policy.concurrency or self._affordable() <= 0:
            return None
        return max(now + HORIZON / 4, self._limiter.next_start(now) - HORIZON)

    def state(self) -> Mapping[str, Any]:
        """What the next owner must know, as points in the store's time."""
        now, ends = self._clock.monotonic(), {"slow_until": self._slow_until, "hold_until": self._hold_until}
        state: dict[str, Any] = {
            name: round((self._clock.now() + timedelta(seconds=end - now)).timestamp() * 1000)
            for name, end in ends.items()
            if end > now
        }
        return {**state, "capped": True} if self._affordable() <= 0 else state

    def is_next_owner(self, owned: OwnedLane) -> bool:
        """Whether we had the lane before and nobody since: then what it knows still holds."""
        if owned.epoch != self._epoch + 1:
            return False
        self._epoch = owned.epoch
        self._spent_day, self._spent_month = owned.spent_day, owned.spent_month
        self.hungry, self.due = True, None
        return True

    def _restore(self, owned: OwnedLane) -> None:
        now = self._clock.monotonic()
        if owned.epoch > 1 and self.policy.rate is not None:
            # What the last owner sent in its last window is not known here: wait until it has passed.
            self._limiter.hold_until(now + self.policy.per)
        slow = self._seconds_until(owned.state.get("slow_until"))
        if slow > 0:
            self._limiter.slow_to(1.0 - self.policy.slow_by)
            self._slow_until = now + min(slow, self.policy.slow_for)
        hold = self._seconds_until(owned.state.get("hold_until"))
        if hold > 0:
            self._hold_until = now + min(hold, LONGEST_HOLD)
            self._limiter.hold_until(self._hold_until)

    def _seconds_until(self, moment: Any) -> float:
        return moment / 1000 - self._clock.now().timestamp() if isinstance(moment, int) else 0.0

    def _affordable(self) -> int:
        """What the caps per day and month still allow, in tasks of one unit; many when there is no cap."""
        self._new_day()
        left = [
            cap - spent - self.reserved
            for cap, spent in ((self.policy.cap_day, self._spent_day), (self.policy.cap_month, self._spent_month))
            if cap is not None
        ]
        return max(0, min(left)) if left else 1_000_000

    def _new_day(self) -> None:
        today = self._today()
        if today != self._day:
            if today.month != self._day.month:
                self._spent_month = 0
            self._spent_day, self._day = 0, today

    def _today(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
