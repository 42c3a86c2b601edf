"""What a lane may spend per UTC day and month, over all jobs. Pure but for the clock."""

from datetime import UTC, datetime

from forager.core.clock import Clock
from forager.core.pipeline import Lane

NO_CAP = 1_000_000


class Caps:
    def __init__(self, lane: Lane, clock: Clock, spent_day: int, spent_month: int) -> None:
        self.lane = lane
        self.reserved = 0
        self._clock = clock
        self._day = self._today()
        self._spent_day, self._spent_month = spent_day, spent_month

    def affordable(self) -> int:
        """What is still allowed, in tasks of one unit; many when there is no cap."""
        if self.lane.cap_day is None and self.lane.cap_month is None:
            return NO_CAP
        self._new_day()
        left = [
            cap - spent - self.reserved
            for cap, spent in ((self.lane.cap_day, self._spent_day), (self.lane.cap_month, self._spent_month))
            if cap is not None
        ]
        return max(0, min(left))

    def spend(self, reserved: int, cost: int) -> None:
        self.reserved -= reserved
        self._new_day()
        self._spent_day += cost
        self._spent_month += cost

    def recount(self, spent_day: int, spent_month: int) -> None:
        """As the ledger has it."""
        self._spent_day, self._spent_month = spent_day, spent_month

    def _new_day(self) -> None:
        today = self._today()
        if today != self._day:
            if today.month != self._day.month:
                self._spent_month = 0
            self._spent_day, self._day = 0, today

    def _today(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
