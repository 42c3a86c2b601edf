"""The lanes that a worker owns: taken when they have work or a request needs one, given back when they are idle.

A lane has one owner at a time. That is why rates and breakers are exact without a limiter that all processes share: the
owner keeps them in memory (`lane.py`), and passes them on through the store when the lane moves (`LaneRun.state`). A
hanging site therefore delays only its own lane.

Ownership belongs to the session, so a dead owner is replaced when its lease expires. Three rules keep it correct. (1) A
lane is removed from memory before the store releases it; otherwise a request could still be sent through a lane that
another session has just taken. (2) An answer of the store that names a lane as ours counts only if no lane was given
back since the question (`_gone`); otherwise a lane could be used here after another session got it. (3) A lane that we
take back with no owner in between continues with its old state; any other starts from the stored state.

Ownership is also shared fairly. A session with more than its share, while others want lanes, gives up those it has held
longest, but none before a quantum has passed: without the quantum, lanes would move back and forth and spend their time
waiting. What a lane may start is decided in `lane.py`; what to lease, in `work/worker.py`.

A lane whose limits are per worker (`shared`) has no owner: it is no part of any share, and is left only when it is
idle. Its limits belong to this process, not to a session. So its state is not stored but kept here (`_own_states`),
and a later session of this process continues with it as if it had taken the lane over from itself.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from forager.core.clock import Clock
from forager.core.ledger import Away, GivenLane, LedgerQueue, OwnedLane, Session, Want
from forager.core.pipeline import StepTable
from forager.engine.lanes.lane import LaneRules, LaneRun, LaneUsers
from forager.engine.waits import (
    CLOSED_FOR_LONG,
    CROWDED_LOOK,
    IDLE_BEFORE_GIVING_BACK,
    LONGEST_REST,
    OPEN_HOLDS,
    QUANTUM,
    RESTS_FOR_LONG,
    SHARE_HOLDS,
    TURNS_HOLD,
    WAITING_HOLDS,
)
from forager.engine.work.stats import LaneTally

# Shares the slots of a process between its lanes when they want more than are free. Pure: no store, no clock.
#
# Lanes with the lowest turn come first, then those served longest ago. Lanes of equal turn are so served in rotation,
# and a job of a higher turn moves to turn 0 when it has aged, so that no lane starves.


LANE_TO_FREE = 3
"""A lane may hold at most this multiple of the slots that are still free, so that a site that never answers leaves room
for other lanes."""


def share_out(lanes: Iterable[LaneRun], free: int) -> tuple[list[Want], bool]:
    """Return what to lease for each lane, in this order, and whether a lane could have used more."""
    wants: list[Want] = []
    short = False
    for lane in lanes:
        share = min(free, -(-(LANE_TO_FREE * free - lane.in_flight) // (LANE_TO_FREE + 1)))
        most = lane.most(share) if share > 0 else 0
        short = short or most >= share
        if most > 0:
            wants.append(Want(lane.id, most))
            free -= most
    return wants, short


def by_turn(lanes: Iterable[LaneRun]) -> list[LaneRun]:
    """Return the lanes in the order of service. Among lanes served at the same time, the one that got less comes first.
    A lane that is leaving gets nothing."""
    return sorted((lane for lane in lanes if not lane.leaving), key=lambda lane: (lane.turn, lane.served))


def longest_held(lanes: Iterable[LaneRun], most: int, held_before: float) -> list[LaneRun]:
    """Return the lanes to give to sessions with less than their share: those taken first, so that each lane moves at
    most once per quantum. Lanes that are leaving already count. A lane taken after `held_before` stays for now."""
    known = list(lanes)
    staying = sorted((lane for lane in known if not lane.leaving), key=lambda lane: lane.taken_at)
    old = [lane for lane in staying if lane.taken_at <= held_before]
    return old[: max(0, most - (len(known) - len(staying)))]


def who_leaves(lanes: Collection[LaneRun], waiting: Sequence[int], held_before: float) -> list[LaneRun]:
    """Return the lanes that make room for lanes without an owner: those of the highest turns, and among these the ones
    taken first.

    `waiting` has the turns of the lanes without an owner, lowest first; lanes that are leaving already make room for
    the first of them. A lane taken after `held_before` has not had its quantum and stays. No lane leaves for a higher
    turn than its own.
    """
    going = sum(lane.leaving for lane in lanes)
    held = sorted(
        (lane for lane in lanes if lane.taken_at <= held_before and not lane.leaving),
        key=lambda lane: (-lane.turn, lane.taken_at),
    )
    return [lane for lane, turn in zip(held, waiting[going:], strict=False) if turn <= lane.turn]


MOST_REMEMBERED = 10_000


class OwnedLanes:
    """A worker's lanes by number, in the order in which they were taken."""

    def __init__(
        self,
        ledger: LedgerQueue,
        rules: LaneRules,
        clock: Clock,
        steps: StepTable,
        *,
        most: int,
        random: Callable[[], float],
        tally: LaneTally | None = None,
    ) -> None:
        self.news = 1
        """Counts the events after which there may be lanes to take …"""
        self._looked_at = 0
        """… and the value of that counter at the last look."""
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._most = most
        self._steps = steps
        self._random = random
        self._tally = tally or LaneTally()
        self._lanes: dict[int, LaneRun] = {}
        self._by_name: dict[str, LaneRun] = {}
        self._given_back: dict[int, LaneRun] = {}
        """Lanes that we gave back. If we take one again with no owner in between, it continues with this state."""
        self._own_states: dict[int, tuple[Mapping[str, Any], int]] = {}
        """States of shared lanes that we left, each with the number of times that we have joined it."""
        self._idle_since: dict[int, float] = {}
        self._giving = asyncio.Lock()
        self._gone = 0
        """Counts how often lanes were given back. An older answer of the store may still name such a lane as ours."""
        self._rules_changed = False
        self._turns_asked = self._waiting_asked = self._share_asked = float("-inf")
        self._share_at = math.inf
        """Time when the lanes above our share will have been held for a quantum."""

    def __getitem__(self, lane: int) -> LaneRun:
        return self._lanes[lane]

    def __iter__(self) -> Iterator[LaneRun]:
        return iter(self._lanes.values())

    def clear(self) -> None:
        """Forget all lanes: the session is lost."""
        self._leave_shared(self._lanes.values())
        for held in (self._lanes, self._by_name, self._given_back, self._idle_since):
            held.clear()
        self._gone += 1
        self.news += 1

    def state_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the current state of a lane; None if it is not ours."""
        lane = self._by_name.get(name)
        return None if lane is None else lane.state()

    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """Return the states of all lanes that we own, which every heartbeat stores."""
        now = self._clock.monotonic()
        for lane in self:
            if lane.users.forget(now):
                self._adopt(lane)
        return {lane.id: lane.state() for lane in self if not lane.shared}

    def breakers(self) -> Mapping[str, str]:
        """Return the lanes whose breaker is not closed, with its state."""
        now = self._clock.monotonic()
        states = ((lane.name, lane.breaker.state(now)) for lane in self if lane.breaker)
        return {name: state for name, state in states if state != "closed"}

    def use(self, lane: LaneRun, pipeline: str) -> bool:
        """Note that a task of this pipeline is about to use the lane, so that the pipeline's rules also apply to it.
        Returns whether the pipeline is a new user."""
        new = lane.users.use(pipeline, self._clock.monotonic())
        if new:
            self._adopt(lane)
        return new

    def expect_work(self) -> None:
        """Note that new work may have arrived in any lane."""
        self.news += 1
        self.make_hungry()

    def make_hungry(self, some: Iterable[int] | None = None) -> None:
        """Mark all lanes, or some, as worth another lease."""
        for lane in self if some is None else (self._lanes[number] for number in some if number in self._lanes):
            lane.hungry = True

    def make_hungry_by_name(self, name: str) -> None:
        """Mark a lane as worth another lease, if we have it."""
        if (lane := self._by_name.get(name)) is not None:
            lane.hungry = True

    def wait_to_send(self) -> bool:
        """Return whether a lane has work and only waits until it may send again."""
        now = self._clock.monotonic()
        return any(lane.hungry and 0 < lane.rests(now) < CLOSED_FOR_LONG for lane in self)

    def leave(self) -> None:
        """Give back every lane as soon as nothing of it is in flight."""
        for lane in self:
            lane.leaving = True

    def next_look(self, now: float) -> float:
        """Return when `give_back_idle` or `ask_turns` may have something to do, if nothing else happens before."""
        crowded = now + CROWDED_LOOK if len(self._lanes) >= self._most else math.inf
        idle = (since + IDLE_BEFORE_GIVING_BACK for since in self._idle_since.values())
        return min([crowded, self._share_at, *idle])

    def could_take(self, free: int) -> int:
        """Return how many more lanes there is room for, with `free` slots in the process."""
        return max(0, min(self._most - len(self._lanes), free))

    def adopt_rules(self) -> None:
        """Apply changed rules to every lane."""
        for lane in self:
            self._adopt(lane)
        self._rules_changed = True
        self.news += 1

    @property
    def look(self) -> bool:
        """Return whether there may be lanes to take or, if there is no room for more, lanes to make room for."""
        now = self._clock.monotonic()
        if self._looked_at != self.news or now >= self._share_at:
            return True
        return len(self._lanes) >= self._most and now - self._turns_asked >= CROWDED_LOOK

    def heard(self, news: int, *, more: bool) -> None:
        """Note the store's answer whether there are lanes to take; `news` is the counter's value at the time of the
        question."""
        if not more and not self._rules_changed:
            self._looked_at = news

    async def take(self, session: Session) -> bool:
        """Take lanes that have work and no owner. Returns whether there were any. What arrives meanwhile causes another
        look."""
        news = self.news
        if self._rules_changed:  # a lane may be asleep until hours that no longer apply
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
            await self.ask_turns(session)
        return bool(taken)

    async def _make_room(self, session: Session) -> None:
        """Give up lanes whose region has workers again, and lanes above our fair share while other sessions want lanes:
        the longest-held first, and none held for less than a quantum. The others are considered when their quantum is
        over."""
        now = self._clock.monotonic()
        if now - self._share_asked < SHARE_HOLDS and now < self._share_at:
            return
        self._share_asked, self._share_at = now, math.inf
        for number in await self._ledger.strayed(session) if self._lanes else ():
            if number in self._lanes:
                self._lanes[number].leaving = True
        above = await self._ledger.surplus(session) if len(self._lanes) > 1 else {}
        if above.keys() - {None}:  # a lane's queue may have changed since we took it
            for number, current in (await self._ledger.queues_of_lanes(session)).items():
                if number in self._lanes:
                    self._lanes[number].queue = current
        for queue, count in above.items():
            lanes = [lane for lane in self if not lane.shared and queue in (None, lane.queue)]
            for lane in longest_held(lanes, count, now - QUANTUM):
                lane.leaving = True
            staying = [lane.taken_at for lane in lanes if not lane.leaving]
            if staying and count > len(lanes) - len(staying):  # some may have been given back since the count
                self._share_at = min(self._share_at, max(min(staying) + QUANTUM, now + SHARE_HOLDS))

    async def ask_turns(self, session: Session) -> None:
        """Read the turns of our lanes from the store, and whether other lanes wait for a slot. Called when there is not
        enough room for all."""
        now = self._clock.monotonic()
        if now - self._turns_asked < TURNS_HOLD:
            return
        self._turns_asked = now
        crowded = len(self._lanes) >= self._most and now - self._waiting_asked >= QUANTUM * WAITING_HOLDS
        self._waiting_asked = now if crowded else self._waiting_asked
        demand = await self._ledger.demand(session, list(self._lanes), self._most if crowded else 0)
        for number, turn in demand.own.items():
            if number in self._lanes:
                self._lanes[number].turn = turn
        owned = [lane for lane in self if not lane.shared]
        for lane in who_leaves(owned, demand.waiting, now - QUANTUM):
            lane.leaving = True

    async def of_url(self, session: Session | None, url: str, own: LaneRun) -> LaneRun | Away:
        """Return the lane that a URL belongs to; take it if no session owns it.

        A lane that is not the task's own is checked once a second, because it may have been paused.
        """
        name = self._rules.lane_name(url)
        lane = self._by_name.get(name)
        now = self._clock.monotonic()
        if lane is not None and (session is None or lane is own or now - lane.seen_open < OPEN_HOLDS):
            return lane
        taken = Away.ELSEWHERE if session is None else await self._take_one(session, name)
        if isinstance(taken, LaneRun):
            taken.seen_open = now
        return taken

    async def take_named(self, session: Session, name: str) -> LaneRun | Away:
        """Return a lane by name; take it if no session owns it."""
        return self._by_name.get(name) or await self._take_one(session, name)

    async def give_back_idle(self, session: Session, unsettled: Collection[int] = ()) -> bool:
        """Give back lanes that are idle or closed for long, so that any session can take them when they have work, and
        lanes that make room for others once they have nothing in flight and nothing `unsettled`. Returns whether a
        slot became free for another lane."""
        async with self._giving:
            going, crowded = self._going(unsettled), len(self._lanes) >= self._most
            if not going:
                return False
            await self._give(session, going)
        self._given_back.update({lane.id: lane for lane in going if not lane.shared})
        while len(self._given_back) > MOST_REMEMBERED:
            self._given_back.pop(next(iter(self._given_back)))
        return crowded

    async def give_all(self, session: Session) -> None:
        """Give back all lanes at the end of a session, so that their next owners continue with their state."""
        async with self._giving:
            if self._lanes:
                await self._give(session, list(self._lanes.values()))

    def _going(self, unsettled: Collection[int]) -> list[LaneRun]:
        """Return the lanes to give back now."""
        now = self._clock.monotonic()
        crowded = len(self._lanes) >= self._most
        longest = RESTS_FOR_LONG if crowded else CLOSED_FOR_LONG
        for lane in self:
            # A shared lane that rests would be joined again at once, because its work is still there.
            if lane.in_flight or (lane.hungry and (lane.shared or lane.rests(now) < longest)):
                self._idle_since.pop(lane.id, None)
            else:
                self._idle_since.setdefault(lane.id, now)
        idle = {i for i, since in self._idle_since.items() if now - since >= IDLE_BEFORE_GIVING_BACK}
        idle |= {lane.id for lane in self if lane.leaving and not lane.in_flight and lane.id not in unsettled}
        return [self._lanes[number] for number in idle]

    async def _take_one(self, session: Session, name: str) -> LaneRun | Away:
        """Take a lane by name. The store's answer counts only if no lane was given back meanwhile: it may have been
        this one."""
        while True:
            async with self._giving:  # wait until lanes that are being given back are gone
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
        for lane in going:  # removed first, so that no request can still find them
            lane.ours = False
            del self._lanes[lane.id], self._by_name[lane.name]
            self._idle_since.pop(lane.id, None)
        self._gone += 1
        self.news += 1
        try:
            await self._ledger.give_lanes(session, {lane.id: self._given(lane, now) for lane in going})
        except BaseException:
            for lane in going:  # the store did not confirm: they are still ours
                lane.ours = True
                self._lanes[lane.id] = self._by_name[lane.name] = lane
            raise
        self._leave_shared(going)

    def _leave_shared(self, lanes: Iterable[LaneRun]) -> None:
        self._own_states.update({lane.id: (lane.last_state(), lane.epoch) for lane in lanes if lane.shared})

    def _own(self, owned: OwnedLane) -> LaneRun:
        if owned.shared and owned.id in self._own_states:
            state, epoch = self._own_states.pop(owned.id)
            owned = replace(owned, state=state, epoch=epoch + 1)
        lane = self._given_back.pop(owned.id, None)
        if lane is None or not lane.is_next_owner(owned):
            lane = self._new(owned)
        self._adopt(lane)
        lane.taken_at, lane.leaving, lane.ours = self._clock.monotonic(), False, True
        lane.queue = owned.queue
        self._lanes[owned.id] = self._by_name[owned.name] = lane
        return lane

    def _new(self, owned: OwnedLane) -> LaneRun:
        """Create a lane with the rules of the pipelines that use it. If these are not known although the lane had
        owners before, assume all pipelines: one of them may have sent requests under the slowest rules."""
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
            counts=self._tally.of(owned.name),
        )

    def _adopt(self, lane: LaneRun) -> None:
        lane.adopt(self._rules.lane_for(lane.name, lane.users.names))

    def _given(self, lane: LaneRun, now: float) -> GivenLane:
        if lane.shared:
            return GivenLane()
        rest = min(lane.rests(now), LONGEST_REST)
        wakes = round((self._clock.now().timestamp() + rest) * 1000) if rest >= RESTS_FOR_LONG else None
        return GivenLane(lane.last_state(), not_before=wakes)
