"""A lane changes hands: the next owner continues at the exact pace of the last, or waits for a whole window."""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from forager.core.clock import Timer
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.pace import MARGIN, MOST_SENT
from forager.engine.work.heartbeat import StoreClock
from tests.support.clock import FakeClock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Machine:
    """One of several, each with a wall and a monotonic clock of its own; `true` is the store's clock."""

    def __init__(self, true: FakeClock, wall: float = 0.0, monotonic: float = 0.0, answers_in: float = 0.0) -> None:
        self._true = true
        self._wall = timedelta(seconds=wall)
        self._ahead = monotonic
        self.clock = StoreClock(self)
        asked_at = self.monotonic()
        told = true.now()
        self._ahead += answers_in  # the answer is late by this much, for us alone
        self._wall += timedelta(seconds=answers_in)
        self.clock.follow(told, asked_at)
        self._ahead -= answers_in
        self._wall -= timedelta(seconds=answers_in)

    def now(self) -> datetime:
        return self._true.now() + self._wall

    def monotonic(self) -> float:
        return self._true.monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        raise AssertionError("nothing waits here")


def owner(machine: Machine, policy: Lane, epoch: int, before: LaneRun | None = None) -> LaneRun:
    state = {} if before is None else before.last_state()
    return LaneRun(OwnedLane(1, "a", state, epoch), policy, machine.clock)


def send_all_that_may(lane: LaneRun, true: FakeClock, until: float, sent: list[float]) -> None:
    """As many as the lane lets go, in steps of five milliseconds."""
    while true.monotonic() < until:
        now = lane._clock.monotonic()
        if lane._limiter.next_start(now) <= now:
            lane.plan_request()
            if lane._limiter.start(now) <= now:
                lane.left()
                sent.append(true.monotonic())
        true.advance(0.005)


def most_in(seconds: float, sent: list[float]) -> int:
    window: deque[float] = deque()
    most = 0
    for at in sent:
        while window and window[0] <= at - seconds:
            window.popleft()
        window.append(at)
        most = max(most, len(window))
    return most


@given(
    moves=st.lists(st.floats(0.05, 3.0), min_size=1, max_size=8),
    rate=st.sampled_from([1, 3, 20]),
    burst=st.sampled_from([1, 5]),
    skews=st.lists(st.tuples(st.floats(-100, 100), st.floats(-50, 5_000), st.floats(0, 0.2)), min_size=2, max_size=4),
)
def test_however_often_a_lane_moves_between_machines_its_rate_holds_in_any_window(
    moves: list[float], rate: int, burst: int, skews: list[tuple[float, float, float]]
) -> None:
    true = FakeClock(START)
    machines = [Machine(true, *skew) for skew in skews]
    policy = Lane("a", rate=rate, per=1.0, burst=burst)
    lane, sent = owner(machines[0], policy, 1), list[float]()
    for number, stay in enumerate(moves, start=2):
        send_all_that_may(lane, true, true.monotonic() + stay, sent)
        lane = owner(machines[number % len(machines)], policy, number, lane)
    send_all_that_may(lane, true, true.monotonic() + 2.0, sent)
    assert most_in(1.0, sent) <= rate


def test_a_lane_that_moves_every_second_loses_next_to_nothing() -> None:
    true = FakeClock(START)
    machines = [Machine(true), Machine(true, wall=40.0, monotonic=-500.0)]
    policy = Lane("a", rate=10, per=1.0)
    lane, sent = owner(machines[0], policy, 1), list[float]()
    for number in range(2, 22):
        send_all_that_may(lane, true, true.monotonic() + 1.0, sent)
        lane = owner(machines[number % 2], policy, number, lane)
    assert len(sent) >= 0.93 * 20 * 10 / (1 + MARGIN)


def test_the_state_of_an_owner_before_the_last_is_out_of_date() -> None:
    true = FakeClock(START)
    policy = Lane("a", rate=10, per=1.0)
    first = owner(Machine(true), policy, 1)
    told = first.last_state()
    third = LaneRun(OwnedLane(1, "a", told, 3), policy, Machine(true).clock)
    assert third.most(10) == 0
    true.advance(1.1)
    assert third.most(10) > 0


def test_a_slower_rule_than_the_last_owner_had_waits_for_its_own_window() -> None:
    true = FakeClock(START)
    first = owner(Machine(true), Lane("a", rate=10, per=1.0), 1)
    second = owner(Machine(true), Lane("a", rate=1, per=60.0), 2, first)
    assert second.rests(second._clock.monotonic()) >= 60.0
    unlimited = owner(Machine(true), Lane("a", rate=None), 1)
    third = owner(Machine(true), Lane("a", rate=5, per=1.0), 2, unlimited)
    assert third.most(10) == 0


def test_a_gap_continues_with_the_next_owner() -> None:
    true = FakeClock(START)
    policy = Lane("a", rate=None, gap=30.0, site=True)
    first, sent = owner(Machine(true), policy, 1), list[float]()
    send_all_that_may(first, true, true.monotonic() + 10.0, sent)
    assert len(sent) == 1
    second = owner(Machine(true, monotonic=77.0), policy, 2, first)
    send_all_that_may(second, true, true.monotonic() + 30.0, sent)
    assert len(sent) == 2
    assert 30.0 <= sent[1] - sent[0] < 30.1


def test_a_log_that_would_be_too_long_is_not_handed_over() -> None:
    true = FakeClock(START)
    policy = Lane("a", rate=MOST_SENT + 5, per=1.0, burst=MOST_SENT + 5)
    first = owner(Machine(true), policy, 1)
    for _ in range(MOST_SENT + 1):
        first.plan_request()
        first._limiter.start(first._clock.monotonic())
        first.left()
    assert "pace" not in first.last_state()


def test_a_lane_with_requests_in_flight_hands_over_no_pace() -> None:
    lane = owner(Machine(FakeClock(START)), Lane("a", rate=10), 1)
    lane.start(1)
    assert "pace" not in lane.last_state()


def test_a_spoilt_state_makes_the_next_owner_wait_and_nothing_worse() -> None:
    true = FakeClock(START)
    for spoilt in (7, {"epoch": 1}, {"epoch": 1, "sent": ["x"], "window": 1}, {"epoch": 1, "sent": [], "window": None}):
        lane = LaneRun(OwnedLane(1, "a", {"pace": spoilt}, 2), Lane("a", rate=10), Machine(true).clock)
        assert lane.most(10) == 0
