"""The lanes that a worker owns: taken when they have work or a request needs one, given back when they are idle.

Never asks a lane what may start; that is the lane's own business, and the worker's loop decides what to lease.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from forager.core.clock import Clock
from forager.core.ledger import GivenLane, Ledger, OwnedLane, Session
from forager.engine.lane import CLOSED_FOR_LONG, LaneRun
from forager.engine.rules import LaneRules

IDLE_BEFORE_GIVING_BACK = 2.0


class OwnedLanes:
    """By number, in the order in which they were taken."""

    def __init__(
        self, ledger: Ledger, rules: LaneRules, clock: Clock, *, most: int, fail_fast: bool, random: Callable[[], float]
    ) -> None:
        self.look = True
        """Whether there may be lanes to take."""
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._most = most
        self._fail_fast = fail_fast
        self._random = random
        self._lanes: dict[int, LaneRun] = {}
        self._by_name: dict[str, LaneRun] = {}
        self._given_back: dict[int, LaneRun] = {}
        """Lanes we had: taken again with nobody in between, they go on where they were."""
        self._idle_since: dict[int, float] = {}

    def __getitem__(self, lane: int) -> LaneRun:
        return self._lanes[lane]

    def __iter__(self) -> Iterator[LaneRun]:
        return iter(self._lanes.values())

    def clear(self) -> None:
        """None of them is ours any more."""
        for held in (self._lanes, self._by_name, self._given_back, self._idle_since):
            held.clear()
        self.look = True

    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return {lane.id: lane.state() for lane in self}

    def make_hungry(self) -> None:
        """Every lane is worth a look again."""
        for lane in self:
            lane.hungry = True

    def adopt_rules(self) -> None:
        """The rules have changed: every lane follows the new ones."""
        for lane in self:
            lane.adopt(self._rules.lane_for(lane.name))

    async def take(self, session: Session) -> None:
        taken = await self._ledger.take_lanes(session, self._most - len(self._lanes))
        self.look = False
        for owned in taken:
            self._own(owned)

    async def of_url(self, session: Session | None, url: str) -> LaneRun | None:
        """The lane that a URL belongs to; taken for the purpose if nobody has it."""
        name = self._rules.lane_name(url)
        if (lane := self._by_name.get(name)) is not None or session is None:
            return lane
        owned = await self._ledger.take_lane(session, name)
        return None if owned is None else self._lanes.get(owned.id) or self._own(owned)

    async def give_back_idle(self, session: Session) -> None:
        """A lane without work, or closed for long, goes back, so that its next work is anybody's."""
        now = self._clock.monotonic()
        for lane in self:
            if lane.in_flight or (lane.hungry and lane.closed_for() < CLOSED_FOR_LONG):
                self._idle_since.pop(lane.id, None)
            else:
                self._idle_since.setdefault(lane.id, now)
        idle = [i for i, since in self._idle_since.items() if now - since > IDLE_BEFORE_GIVING_BACK]
        if not idle:
            return
        await self._ledger.give_lanes(session, {i: self._given(self._lanes[i]) for i in idle})
        for number in idle:
            lane = self._given_back[number] = self._lanes.pop(number)
            del self._by_name[lane.name]
            del self._idle_since[number]
        self.look = True

    def _own(self, owned: OwnedLane) -> LaneRun:
        rules = self._rules.lane_for(owned.name)
        lane = self._given_back.pop(owned.id, None)
        if lane is None or not lane.is_next_owner(owned):
            lane = LaneRun(owned, rules, self._clock, fail_fast=self._fail_fast, random=self._random)
        lane.adopt(rules)
        self._lanes[owned.id] = self._by_name[owned.name] = lane
        return lane

    def _given(self, lane: LaneRun) -> GivenLane:
        closed = lane.closed_for()
        opens = round((self._clock.now().timestamp() + closed) * 1000) if closed else None
        return GivenLane(lane.state(), not_before=opens)
