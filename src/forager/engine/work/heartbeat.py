"""A worker's session: kept alive by a heartbeat every third of its lease, and over by its own clock.

The deadline is counted from before each call to the store, so that ours is never later than the store's. A worker that
is late therefore stops sending, by its own monotonic clock, before another worker can lease its tasks.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from forager.core.clock import Clock, Timer
from forager.core.ledger import SHIFT, LedgerQueue, Session

# The store's time: its wall clock, advanced by our monotonic clock.
#
# States of lanes and due times of tasks are in the store's time, so that a worker whose own wall clock is wrong does
# not act on it. Only differences come from our side, measured by the monotonic clock.


DRIFT = 0.0001
"""Maximum drift between two clocks, in seconds per second."""


class StoreClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()
        self._followed_at: float | None = None
        self.slack = 0.0
        """Our time may be this number of seconds behind the store's: the duration of the call that returned it."""

    def follow(self, store_now: datetime, asked_at: float) -> None:
        """Synchronise with the store's clock, which was read at `asked_at` by our monotonic clock.

        An answer that took longer than an earlier one is less precise, so it is used only once the earlier one is old.
        """
        now = self._clock.monotonic()
        slack = now - asked_at
        if self._followed_at is None or slack <= self.slack + (now - self._followed_at) * DRIFT:
            self._ahead, self.slack, self._followed_at = store_now - self._clock.now(), slack, now

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return self._clock.call_later(seconds, act)


def slack_of(clock: Clock) -> float:
    """Return by how many seconds a clock may be behind the store's; 0 if it is the store's clock itself."""
    return clock.slack if isinstance(clock, StoreClock) else 0.0


BEATS_PER_LEASE = 3
TELL_AGAIN = 1.0
"""Minimum seconds between reports, outside of heartbeats, that a session begins or ceases to need lanes."""


class Heartbeat:
    def __init__(self, ledger: LedgerQueue, clock: StoreClock, name: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._name = name
        self._deadline = 0.0
        self._told_wants, self._told_at = 0, -math.inf
        """The number of lanes wanted, as last reported to the store, and when that last changed between none and
        some."""
        self.queues: Sequence[str] | None = None
        """The queues that the next session serves; None: all."""
        self.is_shift = False
        """True if the next session is a shift, which shows in its name."""
        self.session: Session | None = None
        self.next_at = 0.0
        """Monotonic time of the next beat."""

    @property
    def alive(self) -> bool:
        """Return whether the session is alive, by our own clock."""
        return self._clock.monotonic() < self._deadline

    async def begin(self) -> Session:
        """Begin a new session, and synchronise the clock with the store's time."""
        before = self._clock.monotonic()
        self._clock.follow(await self._ledger.now(), before)
        before = self._clock.monotonic()
        self.session = await self._ledger.begin(f"{SHIFT if self.is_shift else ''}{self._name}", self.queues)
        self._beaten(self.session, before)
        self._told_wants, self._told_at = 0, -math.inf
        return self.session

    def is_due(self, wants: int) -> bool:
        """Return whether a heartbeat is due: its time has come, or the session begins or ceases to want lanes."""
        now = self._clock.monotonic()
        return now >= self.next_at or (bool(wants) != bool(self._told_wants) and now - self._told_at >= TELL_AGAIN)

    async def beat(self, session: Session, states: Mapping[int, Mapping[str, Any]], wants: int) -> bool:
        """Extend the session, store the state of its lanes, and report how many more it could use. Returns False if the
        session is lost, and with it everything it held."""
        before = self._clock.monotonic()
        store_now = await self._ledger.beat(session, states, wants)
        if store_now is None:
            return False
        self._clock.follow(store_now, before)
        self._beaten(session, before)
        if bool(wants) != bool(self._told_wants):
            self._told_at = before
        self._told_wants = wants
        return True

    def _beaten(self, session: Session, at: float) -> None:
        self._deadline = at + session.lease
        self.next_at = at + session.lease / BEATS_PER_LEASE
