"""The lanes that a worker owns: taken when they have work or a request needs one, given back when they are idle.

Never asks a lane what may start; that is the lane's own business, and the worker's loop decides what to lease.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from forager.core.clock import Clock
from forager.core.ledger import Away, GivenLane, Ledger, OwnedLane, Session
from forager.engine.lane import LaneRun
from forager.engine.lane_fairness import longest_held, who_leaves
from forager.engine.lane_users import LaneUsers
from forager.engine.rules import LaneRules
from forager.engine.step_table import StepTable

IDLE_BEFORE_GIVING_BACK = 2.0
CLOSED_FOR_LONG = 60.0
"""A lane that may send nothing for so many seconds is given back until then …"""
RESTS_FOR_LONG = 3.0
"""… and one that rests for so long already when others wait for its place."""
LONGEST_REST = 24 * 3600.0
"""It is looked at again after so long, however slow its rules are."""
CROWDED_LOOK = 1.0
"""A worker that has as many lanes as it may looks so often whether others wait for a place."""
QUANTUM = 10.0
"""A lane that has work is kept for so many seconds before it makes room, for another lane or for another session."""
SHARE_HOLDS = 1.0
"""What the store said about our fair share of the lanes is asked again after so many seconds."""
MOST_REMEMBERED = 10_000
LOOK_AGAIN = 1.0
TURNS_HOLD = 0.1
"""What the store said about the turns of our lanes is asked again after so many seconds …"""
WAITING_HOLDS = 0.1
"""… and who waits for a place, where thousands may, after this part of the quantum."""


class OwnedLanes:
    """By number, in the order in which they were taken."""

    def __init__(
        self,
        ledger: Ledger,
        rules: LaneRules,
        clock: Clock,
        steps: StepTable,
        *,
        most: int,
        random: Callable[[], float],
    ) -> None:
        self.news = 1
        """How often there may have come to be lanes to take …"""
        self._looked_at = 0
        """… and up to where that was looked at."""
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._most = most
        self._steps = steps
        self._random = random
        self._lanes: dict[int, LaneRun] = {}
        self._by_name: dict[str, LaneRun] = {}
        self._given_back: dict[int, LaneRun] = {}
        """Lanes we had: taken again with nobody in between, they go on where they were."""
        self._idle_since: dict[int, float] = {}
        self._giving = asyncio.Lock()
        self._gone = 0
        """How often lanes have left us. An answer of the store that is older may name one of them as ours."""
        self._rules_changed = False
        self._turns_asked = self._waiting_asked = self._share_asked = float("-inf")
        self._share_at = math.inf
        """When lanes that are above our share will have been held for a quantum."""

    def __getitem__(self, lane: int) -> LaneRun:
        return self._lanes[lane]

    def __iter__(self) -> Iterator[LaneRun]:
        return iter(self._lanes.values())

    def clear(self) -> None:
        """None of them is ours any more."""
        for held in (self._lanes, self._by_name, self._given_back, self._idle_since):
            held.clear()
        self._gone += 1
        self.news += 1

    def state_of(self, name: str) -> Mapping[str, Any] | None:
        """The state of one lane as it is now; None if it is not ours."""
        lane = self._by_name.get(name)
        return None if lane is None else lane.state()

    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """What is written down with every heartbeat."""
        now = self._clock.monotonic()
        for lane in self:
            if lane.users.forget(now):
                self._adopt(lane)
        return {lane.id: lane.state() for lane in self}

    def use(self, lane: LaneRun, pipeline: str) -> bool:
        """A task of this pipeline is about to use the lane: from now on its rules hold there too. Returns whether it is
        a new user."""
        new = lane.users.use(pipeline, self._clock.monotonic())
        if new:
            self._adopt(lane)
        return new

    def expect_work(self) -> None:
        """Some may have come, anywhere."""
        self.news += 1
        self.make_hungry()

    def make_hungry(self, some: Iterable[int] | None = None) -> None:
        """Every lane is worth a look again, or some of them are."""
        for lane in self if some is None else (self._lanes[number] for number in some if number in self._lanes):
            lane.hungry = True

    def next_look(self, now: float) -> float:
        """When `give_back_idle` or `ask_turns` may have something to do, if nothing else happens before."""
        crowded = now + CROWDED_LOOK if len(self._lanes) >= self._most else math.inf
        idle = (since + IDLE_BEFORE_GIVING_BACK for since in self._idle_since.values())
        return min([crowded, self._share_at, *idle])

    def could_take(self, free: int) -> int:
        """How many more lanes there is room for, with so many free places in the process."""
        return max(0, min(self._most - len(self._lanes), free))

    def adopt_rules(self) -> None:
        """The rules have changed: every lane follows the new ones."""
        for lane in self:
            self._adopt(lane)
        self._rules_changed = True
        self.news += 1

    @property
    def look(self) -> bool:
        """Whether there may be lanes to take, or, where there is no room for more, to make room for."""
        now = self._clock.monotonic()
        if self._looked_at != self.news or now >= self._share_at:
            return True
        return len(self._lanes) >= self._most and now - self._turns_asked >= CROWDED_LOOK

    def heard(self, news: int, *, more: bool) -> None:
        """Whether there may be lanes to take, as the store said when `news` was as given."""
        if not more and not self._rules_changed:
            self._looked_at = news

    async def take(self, session: Session) -> bool:
        """Lanes that have work and no owner; whether there were any. What arrives meanwhile is worth another look."""
        news = self.news
        if self._rules_changed:  # a lane may sleep until hours that hold no longer
            await self._ledger.wake_lanes()
            self._rules_changed = False
        await self._make_room(session)
        room = self._most - len(self._lanes)
        taken = await self._ledger.take_lanes(session, room) if room > 0 else ()
        for owned in taken:
            if owned.id not in self._lanes:  # else a request has just taken it
                self._own(owned)
        self._looked_at = news
        if len(self._lanes) >= self._most:
            await self.ask_turns()
        return bool(taken)

    async def _make_room(self, session: Session) -> None:
        """Let go of what is above our fair share, while other sessions want lanes: the longest-held first, and none
        that we have had for less than a quantum. The others are looked at when their quantum is over."""
        now = self._clock.monotonic()
        if now - self._share_asked < SHARE_HOLDS and now < self._share_at:
            return
        self._share_asked, self._share_at = now, math.inf
        above = await self._ledger.surplus(session) if len(self._lanes) > 1 else 0
        if above:
            for lane in longest_held(self, above, now - QUANTUM):
                lane.leaving = True
            staying = [lane.taken_at for lane in self if not lane.leaving]
            if above > len(self._lanes) - len(staying):
                self._share_at = max(min(staying) + QUANTUM, now + SHARE_HOLDS)

    async def ask_turns(self) -> None:
        """Not enough for all: learn how urgent each lane is, and whether others wait for a place."""
        now = self._clock.monotonic()
        if now - self._turns_asked < TURNS_HOLD:
            return
        self._turns_asked = now
        crowded = len(self._lanes) >= self._most and now - self._waiting_asked >= QUANTUM * WAITING_HOLDS
        self._waiting_asked = now if crowded else self._waiting_asked
        demand = await self._ledger.demand(list(self._lanes), self._most if crowded else 0)
        for number, turn in demand.own.items():
            if number in self._lanes:
                self._lanes[number].turn = turn
        for lane in who_leaves(self._lanes.values(), demand.waiting, now - QUANTUM):
            lane.leaving = True

    async def of_url(self, session: Session | None, url: str, own: LaneRun) -> LaneRun | Away:
        """The lane that a URL belongs to; taken for the purpose if nobody has it.

        A lane that is not the task's own is looked at once a second: it may have been paused.
        """
        name = self._rules.lane_name(url)
        lane = self._by_name.get(name)
        now = self._clock.monotonic()
        if lane is not None and (session is None or lane is own or now - lane.seen_open < LOOK_AGAIN):
            return lane
        found = Away.ELSEWHERE if session is None else await self._take_one(session, name)
        if isinstance(found, LaneRun):
            found.seen_open = now
        return found

    async def give_back_idle(self, session: Session, unsettled: Collection[int] = ()) -> bool:
        """A lane without work, or closed for long, goes back, so that its next work is anybody's; one that makes room
        for others does when it has nothing in flight and nothing `unsettled`. Whether there is room now that was not
        there before."""
        async with self._giving:
            going, crowded = self._going(unsettled), len(self._lanes) >= self._most
            if not going:
                return False
            await self._give(session, going)
        for lane in going:
            self._given_back[lane.id] = lane
        while len(self._given_back) > MOST_REMEMBERED:
            self._given_back.pop(next(iter(self._given_back)))
        return crowded

    async def give_all(self, session: Session) -> None:
        """At the end of a session: the next owners go on with what is known of their lanes."""
        async with self._giving:
            if self._lanes:
                await self._give(session, list(self._lanes.values()))

    def _going(self, unsettled: Collection[int]) -> list[LaneRun]:
        """Those that go back now."""
        now = self._clock.monotonic()
        crowded = len(self._lanes) >= self._most
        for lane in self:
            if lane.in_flight or (lane.hungry and lane.rests(now) < (RESTS_FOR_LONG if crowded else CLOSED_FOR_LONG)):
                self._idle_since.pop(lane.id, None)
            else:
                self._idle_since.setdefault(lane.id, now)
        idle = {i for i, since in self._idle_since.items() if now - since >= IDLE_BEFORE_GIVING_BACK}
        idle |= {lane.id for lane in self if lane.leaving and not lane.in_flight and lane.id not in unsettled}
        return [self._lanes[number] for number in idle]

    async def _take_one(self, session: Session, name: str) -> LaneRun | Away:
        """By its name. The store's answer counts only if no lane went back meanwhile: it may have been this one."""
        while True:
            async with self._giving:  # what is on its way back is not ours any more
                gone = self._gone
            owned = await self._ledger.take_lane(session, name)
            if isinstance(owned, Away):
                return owned
            if (lane := self._lanes.get(owned.id)) is not None:
                return lane
            if gone == self._gone:
                return self._own(owned)

    async def _give(self, session: Session, going: Sequence[LaneRun]) -> None:
        now = self._clock.monotonic()
        for lane in going:  # out of sight before they go: no request may still find them
            lane.ours = False
            del self._lanes[lane.id], self._by_name[lane.name]
            self._idle_since.pop(lane.id, None)
        self._gone += 1
        self.news += 1
        try:
            await self._ledger.give_lanes(session, {lane.id: self._given(lane, now) for lane in going})
        except BaseException:
            for lane in going:  # still ours, as far as we know
                lane.ours = True
                self._lanes[lane.id] = self._by_name[lane.name] = lane
            raise

    def _own(self, owned: OwnedLane) -> LaneRun:
        lane = self._given_back.pop(owned.id, None)
        if lane is None or not lane.is_next_owner(owned):
            lane = self._new(owned)
        self._adopt(lane)
        lane.taken_at, lane.leaving, lane.ours = self._clock.monotonic(), False, True
        self._lanes[owned.id] = self._by_name[owned.name] = lane
        return lane

    def _new(self, owned: OwnedLane) -> LaneRun:
        """With the rules of those who use it. Where that is not known, although others had it before us, we first wait
        as if all did: one of them may have sent something by the slowest rules."""
        users = LaneUsers.read(owned.state.get("used_by"), self._clock)
        used_by = users.names if users.names or owned.epoch == 1 else None
        return LaneRun(
            owned,
            self._rules.lane_for(owned.name, used_by),
            self._clock,
            fail_fast=self._steps.fail_fast,
            skippers=self._steps.skippers,
            users=users,
            random=self._random,
        )

    def _adopt(self, lane: LaneRun) -> None:
        lane.adopt(self._rules.lane_for(lane.name, lane.users.names))

    def _given(self, lane: LaneRun, now: float) -> GivenLane:
        rest = min(lane.rests(now), LONGEST_REST)
        wakes = round((self._clock.now().timestamp() + rest) * 1000) if rest >= RESTS_FOR_LONG else None
        return GivenLane(lane.last_state(), not_before=wakes)
