"""A lane's circuit breaker: after too many failures among the last calls, nothing is sent for a while; then one probe
decides.

Pure: times are arguments. Every state change begins a new period, and each admitted call carries the number of its
period. The result of a call from an earlier period (a slow call sent before the breaker opened) is ignored. Without
this, late results of old calls could close or reopen the breaker; with it, exactly one probe decides, whatever the
concurrency.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from forager.core.pipeline import Breaker
from forager.engine.waits import SLOW_START

State = Literal["closed", "open", "half_open"]

FIRST_SHARE = 0.1
"""Share of the lane's rate with which it begins after the breaker has closed (`SLOW_START`)."""


class BreakerRun:
    def __init__(self, rule: Breaker) -> None:
        self.rule = rule
        self._calls: deque[bool] = deque(maxlen=rule.window)
        self._period = 0
        self._open_until: float | None = None
        self._probing = False
        self._closed_at: float | None = None

    def state(self, now: float) -> State:
        if self._open_until is None:
            return "closed"
        return "open" if now < self._open_until else "half_open"

    def admits(self, now: float) -> int:
        """Return how many calls may begin now: many, one probe, or none."""
        state = self.state(now)
        if state == "closed":
            return 1_000_000
        return 1 if state == "half_open" and not self._probing else 0

    def enter(self, now: float) -> int | None:
        """Begin a call. Returns its period number, or None if it must not be made. The caller then passes the number to
        `ended` or `abandoned`."""
        if self.admits(now) == 0:
            return None
        if self._open_until is not None:
            self._probing = True
        return self._period

    def ended(self, call: int, *, well: bool, now: float) -> bool:
        """Record how a call ended. Returns whether that opened or closed the breaker."""
        if call != self._period:
            return False
        if self._open_until is not None:
            return self._close(now) if well else self._open(now)
        self._calls.append(well)
        return self._calls.count(False) >= self.rule.failures and self._open(now)

    def abandoned(self, call: int) -> None:
        """Record a call without evidence about the site's health: not sent, or answered with a 429."""
        if call == self._period:
            self._probing = False

    def wait(self, now: float) -> float:
        """Return the seconds until a call may be tried; an estimate while a probe is under way."""
        if self._open_until is None:
            return 0.0
        return max(self._open_until - now, 1.0)

    def share(self, now: float) -> float:
        """Return the share of the lane's rate that may be used: 1, or less during the minute after an outage."""
        if self._closed_at is None:
            return 1.0
        share = FIRST_SHARE + (1 - FIRST_SHARE) * (now - self._closed_at) / SLOW_START
        if share >= 1.0:
            self._closed_at = None
        return min(1.0, share)

    def dump(self, now: float) -> Mapping[str, Any]:
        """Return the state for the next owner. Seconds are relative to now."""
        known: dict[str, Any] = {"state": self.state(now), "calls": "".join("x."[well] for well in self._calls)}
        if self._open_until is not None:
            known["open_for"] = max(0.0, round(self._open_until - now, 3))
        if self._closed_at is not None:
            known["closed_for"] = round(now - self._closed_at, 3)
        return known

    def load(self, known: Mapping[str, Any], now: float, ago: float) -> None:
        """Continue from the state that another owner stored `ago` seconds ago."""
        self._calls.extend(mark == "." for mark in str(known.get("calls", "")))
        if isinstance(left := known.get("open_for"), int | float):
            self._open_until = now + min(left, self.rule.cooldown) - ago
        if isinstance(since := known.get("closed_for"), int | float):
            self._closed_at = now - since - ago

    def _open(self, now: float) -> bool:
        self._period += 1
        self._probing = False
        self._open_until = now + self.rule.cooldown
        self._closed_at = None
        return True

    def _close(self, now: float) -> bool:
        self._period += 1
        self._probing = False
        self._open_until = None
        self._closed_at = now
        self._calls.clear()
        return True
