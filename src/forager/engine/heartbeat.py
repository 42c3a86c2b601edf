"""A worker's session: begun, kept alive by a beat every third of its lease, and over when its own clock says so.

The deadline is counted from before each call to the store, so that we are never more optimistic than it: a worker that
is late stops sending by its own monotonic clock before another worker may have its tasks.
"""

from collections.abc import Mapping
from typing import Any

from forager.core.ledger import Ledger, Session
from forager.engine.store_clock import StoreClock

BEATS_PER_LEASE = 3


class Heartbeat:
    def __init__(self, ledger: Ledger, clock: StoreClock, name: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._name = name
        self._deadline = 0.0
        self.session: Session | None = None
        self.next_at = 0.0
        """Monotonic time of the next beat."""

    @property
    def alive(self) -> bool:
        """Whether the session holds, as far as we can know."""
        return self._clock.monotonic() < self._deadline

    async def begin(self) -> Session:
        """A new session. From now on the clock tells the store's time."""
        self._clock.follow(await self._ledger.now())
        before = self._clock.monotonic()
        self.session = await self._ledger.begin(self._name)
        self._beaten(self.session, before)
        return self.session

    async def beat(self, session: Session, states: Mapping[int, Mapping[str, Any]]) -> bool:
        """Keep it alive and write down the state of its lanes. False: it is lost, and so is what it held."""
        before = self._clock.monotonic()
        if not await self._ledger.beat(session, states):
            return False
        self._beaten(session, before)
        return True

    def _beaten(self, session: Session, at: float) -> None:
        self._deadline = at + session.lease
        self.next_at = at + session.lease / BEATS_PER_LEASE
