"""Decides when a worker leases suspects (tasks that were in flight when a worker died), and watches the one that runs
alone.

One of them may have killed the worker (an endless loop, a crash in native code), and would kill the next one as well,
with everything beside it. So suspects run in groups that halve with every further crash, and nothing else runs at the
same time: only then does a crash incriminate the group and not some other task. A group that ends clears its members; a
task that crashes its worker while alone, repeatedly, becomes a dead letter. Innocent tasks burn no attempt.

A process can also be killed from outside while a suspect is leased and has done nothing yet: after a restart its lane
may hold the first request back for seconds. So a crash counts only after the step has begun, which is stored before the
step runs. It is also stored when the step waits for an answer: a crash at such a moment is weaker evidence, and must
happen more often. This costs two small writes per request, and only for a suspect that runs alone.
`ledger/*/rescue.py` forms the groups and judges; see docs/decisions/0001.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from forager.core.http import Request, Response
from forager.engine.lane_fetch import LONGEST_WAIT_INSIDE, LaneFetch, TooLate, not_due

PAUSE = 1.0
"""Seconds until a worker asks again after it found no suspects that it may run."""


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
        """Note that there are none that we may run now; a later batch reports whether some are left."""
        self.at, self._not_before = None, now + PAUSE


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
