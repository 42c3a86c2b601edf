"""The breaker of a lane: after too many failures among the last calls nothing is sent for a while, then one probe.

Pure: times go in. Each admitted call has a number of its period; what belongs to an earlier period (a slow call that
was sent before the breaker opened) decides nothing any more, so that exactly one probe does, whatever the concurrency.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from forager.core.pipeline import Breaker

State = Literal["closed", "open", "half_open"]

SLOW_START = 60.0
"""After it has closed, the lane comes back to its full rate over so many seconds …"""
FIRST_SHARE = 0.1
"""… beginning with this share of it."""


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
        """How many calls could begin now: many, one probe, or none."""
        state = self.state(now)
        if state == "closed":
            return 1_000_000
        return 1 if state == "half_open" and not self._probing else 0

    def enter(self, now: float) -> int | None:
        """Begin a call; None: it must not be made. Whoever got a number says `ended` or `abandoned` with it."""
        if self.admits(now) == 0:
            return None
        if self._open_until is not None:
            self._probing = True
        return self._period

    def ended(self, call: int, *, well: bool, now: float) -> bool:
        """How a call ended. Returns whether that opened or closed the breaker."""
        if call != self._period:
            return False
        if self._open_until is not None:
            return self._close(now) if well else self._open(now)
        self._calls.append(well)
        return self._calls.count(False) >= self.rule.failures and self._open(now)

    def abandoned(self, call: int) -> None:
        """It says nothing about the site: not sent, or asked to slow down."""
        if call == self._period:
            self._probing = False

    def wait(self, now: float) -> float:
        """Seconds until a call may be tried; while a probe is under way, a guess."""
        if self._open_until is None:
            return 0.0
        return max(self._open_until - now, 1.0)

    def share(self, now: float) -> float:
        """How much of the lane's rate may be used: all of it, but for a minute after an outage."""
        if self._closed_at is None:
            return 1.0
        share = FIRST_SHARE + (1 - FIRST_SHARE) * (now - self._closed_at) / SLOW_START
        if share >= 1.0:
            self._closed_at = None
        return min(1.0, share)

    def dump(self, now: float) -> Mapping[str, Any]:
        """What the next owner must know; seconds are counted from now."""
        known: dict[str, Any] = {"state": self.state(now), "calls": "".join("x."[well] for well in self._calls)}
        if self._open_until is not None:
            known["open_for"] = max(0.0, round(self._open_until - now, 3))
        if self._closed_at is not None:
            known["closed_for"] = round(now - self._closed_at, 3)
        return known

    def load(self, known: Mapping[str, Any], now: float, ago: float) -> None:
        """Go on where another owner was, `ago` seconds ago."""
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
