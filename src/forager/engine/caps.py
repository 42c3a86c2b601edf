"""Spending caps of a lane per UTC hour, day and month, over all jobs. Pure, except for the clock."""

from datetime import UTC, datetime, timedelta

from forager.core.clock import Clock
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane

NO_CAP = 1_000_000
AN_HOUR = timedelta(hours=1)


class Caps:
    """Tracks what a lane has spent. `lane` may be replaced when its rules change; what was spent still counts."""

    def __init__(self, lane: Lane, clock: Clock, owned: OwnedLane) -> None:
        self.lane = lane
        self.reserved = 0
        self._clock = clock
        self.recount(owned)

    def recount(self, owned: OwnedLane) -> None:
        """Set what was spent in this hour, day and month, as the ledger reports it."""
        self._hour = self._this_hour()
        self._spent = [owned.spent_hour, owned.spent_day, owned.spent_month]

    @property
    def any(self) -> bool:
        return self.lane.cap_hour is not None or self.lane.cap_day is not None or self.lane.cap_month is not None

    def affordable(self) -> int:
        """Return how many units may still be spent; a very large number without a cap."""
        if not self.any:
            return NO_CAP
        return max(0, min(left for left, _ in self._left()) - self.reserved)

    def wait(self, units: int = 1) -> float:
        """Return the seconds until so many units may be spent; 0 if they may be now, or once in-flight tasks have
        ended."""
        if not self.any:
            return 0.0
        ends = [ends for left, ends in self._left() if left < units]
        return (max(ends) - self._clock.now()).total_seconds() if ends else 0.0

    def spend(self, reserved: int, cost: int) -> None:
        self.reserved -= reserved
        if cost:
            self._begin_period()
            self._spent = [spent + cost for spent in self._spent]

    def _left(self) -> list[tuple[int, datetime]]:
        """Yield for each cap what is left of it, and when its period ends."""
        self._begin_period()
        hour, day = self._hour, self._hour.replace(hour=0)
        next_month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        ends = (hour + AN_HOUR, day + timedelta(days=1), next_month)
        caps = (self.lane.cap_hour, self.lane.cap_day, self.lane.cap_month)
        return [(cap - spent, end) for cap, spent, end in zip(caps, self._spent, ends, strict=True) if cap is not None]

    def _begin_period(self) -> None:
        if self._hour <= self._clock.now() < self._hour + AN_HOUR:
            return
        now, was = self._this_hour(), self._hour
        self._hour = now
        self._spent[0] = 0
        if now.date() != was.date():
            self._spent[1] = 0
        if (now.year, now.month) != (was.year, was.month):
            self._spent[2] = 0

    def _this_hour(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
