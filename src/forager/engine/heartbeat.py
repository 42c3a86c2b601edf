"""A worker's session: kept alive by a heartbeat every third of its lease, and over when its own clock says so.

The deadline is counted from before each call to the store, so that ours is never later than the store's. A worker that
is late therefore stops sending, by its own monotonic clock, before another worker can lease its tasks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forager.core.ledger import SHIFT, Ledger, Session
from forager.engine.store_clock import StoreClock

BEATS_PER_LEASE = 3
TELL_AGAIN = 1.0
"""A session that begins or ceases to want lanes reports that between two heartbeats, but not more often than this."""


class Heartbeat:
    def __init__(self, ledger: Ledger, clock: StoreClock, name: str) -> None:
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
        """Whether the next session is a shift, which shows in its name."""
        self.session: Session | None = None
        self.next_at = 0.0
        """Monotonic time of the next beat."""

    @property
    def alive(self) -> bool:
        """Whether the session is alive, by our own clock."""
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
