"""Tasks that a worker claims by number, because a message named them (`Want.tasks`).

They wait here until their lane may start them. Each is reported as over exactly once: when its attempt was settled, or
when it could not be claimed, since it is done, in other hands, or left to any lease. The message can then be
forgotten: whatever happens next to the task, the ledger has it.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from forager.core.clock import Clock
from forager.core.ledger import Away, LeaseBatch, Ledger, Session, Settlement, Want
from forager.engine.lane_ownership import OwnedLanes

PLAIN_EVERY = 1.0
"""A lane with named tasks is leased without them this often, so that retries get their turn, however many there are."""


class Claims:
    """The named tasks of one worker. Use it on the worker's event loop."""

    def __init__(self, ledger: Ledger, lanes: OwnedLanes, clock: Clock, wake: Callable[[], None]) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._clock = clock
        self._wake = wake
        self._waiting: dict[str, deque[int]] = {}
        """Tasks by the name of their lane, in the order of their messages."""
        self._running: set[int] = set()
        self._plain_at: dict[str, float] = {}
        """When a lane was last leased without named tasks."""
        self.in_use = False
        """Whether any task was ever named."""
        self._tell_over: Callable[[Collection[int]], None] = lambda _: None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting(self) -> int:
        """How many tasks have not been claimed yet."""
        return sum(map(len, self._waiting.values()))

    def when_over(self, tell: Callable[[Collection[int]], None]) -> None:
        """Set the function that is called with tasks that are over."""
        self._tell_over = tell

    def add(self, lane: str, tasks: Iterable[int]) -> None:
        """Claim these tasks of a lane as soon as its limits allow."""
        self.in_use = True
        if lane not in self._waiting:
            self._waiting[lane] = deque()
            self._plain_at[lane] = self._clock.monotonic()
        self._waiting[lane].extend(tasks)
        self._wake()

    def forget(self, tasks: Collection[int]) -> set[int]:
        """Claim none of these tasks that still wait: their messages go to another worker. Returns which these are."""
        gone: set[int] = set()
        for lane, waiting in list(self._waiting.items()):
            gone.update(task for task in waiting if task in tasks)
            self._waiting[lane] = deque(task for task in waiting if task not in tasks)
            if not self._waiting[lane]:
                del self._waiting[lane]
        return gone

    async def open_lanes(self, session: Session) -> None:
        """Take the lanes of the waiting tasks. If another session owns one, or it is paused, its tasks are left to any
        lease."""
        for name, waiting in list(self._waiting.items()):
            lane = await self._lanes.take_named(session, name)
            if not isinstance(lane, Away):
                lane.hungry = True
                continue
            tasks = list(waiting)
            await self._ledger.end_offers(tasks)
            self.forget(set(tasks))
            self._tell_over(tasks)

    def name_tasks(self, wants: Sequence[Want]) -> list[Want]:
        """Add waiting tasks to what is about to be leased. Pass the result to `put_back` or to `claimed`."""
        now = self._clock.monotonic()
        return [self._named(want, now) for want in wants]

    def _named(self, want: Want, now: float) -> Want:
        name = self._lanes[want.lane].name
        waiting = self._waiting.get(name)
        if waiting is None:
            return want
        if now - self._plain_at.get(name, -math.inf) >= PLAIN_EVERY:
            self._plain_at[name] = now
            return want
        tasks = [waiting.popleft() for _ in range(min(len(waiting), want.most))]
        if not waiting:
            del self._waiting[name]
        return replace(want, tasks=tasks)

    def put_back(self, wants: Sequence[Want]) -> None:
        """Let the tasks of a lease wait again that has failed."""
        for want in wants:
            if want.tasks:
                self._waiting.setdefault(self._lanes[want.lane].name, deque()).extendleft(reversed(want.tasks))

    def claimed(self, wants: Sequence[Want], batch: LeaseBatch) -> None:
        """Note which tasks were leased; the others are over."""
        asked = {task for want in wants for task in want.tasks}
        if asked:
            leased = asked.intersection(lease.task_id for lease in batch.leases)
            self._running |= leased
            self._tell_over(asked - leased)
        for name in self._waiting:
            self._lanes.make_hungry_by_name(name)  # also if it had nothing else to lease

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Note that these attempts have ended; also if the settlement was refused, because the claim was lost."""
        if self._running:
            self._end(self._running.intersection(s.lease.task_id for s in settlements))

    def lose(self) -> None:
        """Note that the session is lost, and with it every claim: the ledger rescues the tasks."""
        self._end(set(self._running))

    def _end(self, tasks: set[int]) -> None:
        if tasks:
            self._running -= tasks
            self._tell_over(tasks)
