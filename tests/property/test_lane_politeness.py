"""The properties of a lane's politeness, over the very code that the engine runs, with a clock that stands still."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.core.errors import CircuitOpen, TimedOut
from forager.core.http import Request, Response
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Breaker, Hours, Lane
from forager.engine.lanes.breaker import BreakerRun
from forager.engine.lanes.fetch import LaneFetch, MustSnooze, Resources, Surroundings
from forager.engine.lanes.lane import LaneRun
from tests.support.clock import FakeClock

START = datetime(2026, 3, 1, tzinfo=UTC)


def lane_run(policy: Lane, clock: FakeClock, number: int = 1, **more: object) -> LaneRun:
    owned = OwnedLane(**{"id": number, "name": policy.name, "state": {}, "epoch": 1, **more})  # type: ignore[arg-type]
    return LaneRun(owned, policy, clock)


def busiest_window(starts: list[float], per: float) -> int:
    """Most starts in any half-open window of `per` seconds."""
    best, first = 0, 0
    for last, at in enumerate(starts):
        while starts[first] + per <= at:
            first += 1
        best = max(best, last - first + 1)
    return best


async def grants(lane: LaneRun, clock: FakeClock, count: int) -> list[float]:
    """Return when `count` requests, made as fast as possible, are granted."""
    times = []
    for _ in range(count):
        lane.plan_request()
        assert await lane.wait_to_send(lane.ticket(), longest=1e9) == 0.0
        times.append(clock.monotonic())
        lane.left()
    return times


# Feature: scraping-microservices, Property 22: Token bucket rate limiting per domain
@given(
    tokens=st.integers(1, 12),
    interval=st.sampled_from([1.0, 10.0, 15.0]),
    burst=st.integers(1, 12),
    delay=st.sampled_from([(0.0, 0.0), (0.5, 2.0)]),
)
def test_no_window_of_a_domain_holds_more_than_its_tokens_and_no_domain_slows_another__SC_P22(
    tokens: int, interval: float, burst: int, delay: tuple[float, float]
) -> None:
    clock = FakeClock(START)
    busy = lane_run(Lane("a.example", rate=tokens, per=interval, burst=burst, delay=delay), clock)
    other = lane_run(Lane("b.example", rate=tokens, per=interval, burst=burst, delay=delay), clock, number=2)
    times = asyncio.run(grants(busy, clock, 3 * tokens + 2))
    assert busiest_window(times, interval) <= tokens
    before = clock.monotonic()
    asyncio.run(grants(other, clock, 1))
    assert clock.monotonic() == before, "the first token of another domain is there at once"


# Feature: scraping-microservices, Property 24: Allowed scraping hours enforcement
@given(start=st.integers(0, 23), end=st.integers(0, 24), minute=st.integers(0, 24 * 60 - 1))
def test_a_lane_gives_tasks_out_if_and_only_if_its_hours_are_open__SC_P24(start: int, end: int, minute: int) -> None:
    clock = FakeClock(START + timedelta(minutes=minute))
    lane = lane_run(Lane("a.example", rate=5, hours=Hours(start, end)), clock)
    hour = minute // 60
    inside = hour in {h % 24 for h in range(start, end if end > start else end + 24)}
    assert (lane.most(10) > 0) == inside
    if not inside:
        clock.advance(lane.closed_for())
        assert lane.most(10) > 0, "it opens at the announced time"


# Feature: scraping-microservices, Property 26: Adaptive rate reduction on 429
@given(
    tokens=st.integers(1, 20),
    again=st.floats(0, 299),
    period=st.sampled_from([300.0, 60.0]),
)
def test_a_429_halves_the_rate_for_its_period_and_the_original_comes_back__SC_P26(
    tokens: int, again: float, period: float
) -> None:
    clock = FakeClock(START)
    lane = lane_run(Lane("a.example", rate=tokens, per=10.0, burst=tokens, slow_by=0.5, slow_for=period), clock)
    lane.slow_down(None)
    clock.advance(min(again, period - 1))
    lane.slow_down(None)
    began = clock.monotonic()
    slow = []
    while clock.monotonic() < began + period - 25:
        lane.most(100)
        slow += asyncio.run(grants(lane, clock, 1))
    window, half = (10.0, tokens // 2) if tokens >= 2 else (20.0, 1)
    assert busiest_window(slow, window) <= half, "the rate is halved, and a second 429 prolongs that"
    assert busiest_window(slow, window * 1.05) >= half, "it is halved once, not less and less"
    assert max(later - at for at, later in pairwise(slow)) <= window * 1.05
    clock.advance(max(0.0, began + period - clock.monotonic()) + 21)
    lane.most(100)
    assert busiest_window(asyncio.run(grants(lane, clock, 2 * tokens)), 10.0) == tokens, "the original rate is back"


# Feature: scraping-microservices, Property 27: Circuit breaker state transition on failures
@given(
    window=st.integers(1, 20),
    threshold=st.integers(1, 20),
    calls=st.lists(st.booleans(), max_size=80),
)
def test_the_breaker_opens_exactly_when_the_last_calls_hold_too_many_failures__SC_P27(
    window: int, threshold: int, calls: list[bool]
) -> None:
    breaker = BreakerRun(Breaker(window=window, failures=threshold, cooldown=120))
    seen: list[bool] = []
    for now, well in enumerate(calls):
        number = breaker.enter(float(now))
        assert number is not None
        breaker.ended(number, well=well, now=float(now))
        seen.append(well)
        reached = seen[-window:].count(False) >= threshold
        assert breaker.state(float(now)) == ("open" if reached else "closed")
        if reached:
            return


class Refusing:
    """A fetcher that no request may reach."""

    asked = 0

    async def __call__(self, request: Request) -> Response:
        Refusing.asked += 1
        raise TimedOut("no answer")


def opened_lane(clock: FakeClock, cooldown: float) -> LaneRun:
    lane = lane_run(Lane("a.example", rate=None, site=True, breaker=Breaker(10, 5, cooldown)), clock)
    for _ in range(5):
        lane.call_ended(lane.enter_circuit(), well=False)
    return lane


# Feature: scraping-microservices, Property 28: Open circuit rejects immediately
@given(cooldown=st.floats(1, 600), share=st.floats(0, 0.999), fails=st.booleans())
def test_an_open_circuit_sends_nothing_and_answers_at_once__SC_P28(cooldown: float, share: float, fails: bool) -> None:
    clock, fetch = FakeClock(START), Refusing()
    lane = opened_lane(clock, cooldown)
    clock.advance(cooldown * share)

    async def ask() -> None:
        async def own(_: str, __: LaneRun) -> LaneRun:
            return lane

        around = Surroundings(Resources(fetch), lambda: True, own)
        out = LaneFetch(around, lane, lane.start(0), when_open="fail" if fails else "snooze")
        await out(Request("https://a.example/"))

    before, asked = clock.monotonic(), Refusing.asked
    with pytest.raises(CircuitOpen if fails else MustSnooze):
        asyncio.run(ask())
    assert Refusing.asked == asked
    assert clock.monotonic() == before
    assert lane.most(10) == 0, "nothing that could wait is even leased"


# Feature: scraping-microservices, Property 29: Half-open probe determines next state
@given(
    probes=st.lists(st.booleans(), min_size=1, max_size=8),
    others=st.integers(1, 20),
    stragglers=st.lists(st.booleans(), max_size=5),
)
def test_one_probe_alone_decides_whatever_else_comes_back__SC_P29(
    probes: list[bool], others: int, stragglers: list[bool]
) -> None:
    breaker = BreakerRun(Breaker(10, 5, 120.0))
    late = [breaker.enter(0.0) for _ in stragglers]
    for _ in range(5):
        number = breaker.enter(0.0)
        assert number is not None
        breaker.ended(number, well=False, now=0.0)
    now = 0.0
    for well in probes:
        assert breaker.state(now) == "open"
        now += 120.0
        assert breaker.state(now) == "half_open"
        admitted = [number for number in (breaker.enter(now) for _ in range(others)) if number is not None]
        assert len(admitted) == 1, "exactly one probe, whatever the concurrency"
        for number, ended in zip(late, stragglers, strict=True):
            assert number is not None
            breaker.ended(number, well=ended, now=now)
        assert breaker.state(now) == "half_open", "what was sent before it opened decides nothing"
        breaker.ended(admitted[0], well=well, now=now)
        if well:
            assert breaker.state(now) == "closed"
            for _ in range(4):
                number = breaker.enter(now)
                assert number is not None
                breaker.ended(number, well=False, now=now)
            assert breaker.state(now) == "closed", "the count began anew"
            return


@given(cooldown=st.integers(1, 600), away=st.integers(0, 900).map(lambda n: n + 0.5))
def test_an_open_breaker_stays_open_through_a_change_of_owner(cooldown: int, away: float) -> None:
    clock = FakeClock(START)
    first = opened_lane(clock, cooldown)
    state = first.state()
    clock.advance(away)
    second = lane_run(first.policy, clock, state=state, epoch=2)
    assert (second.circuit_wait() > 0) == (first.circuit_wait() > 0)
    assert second.circuit_wait() == pytest.approx(first.circuit_wait(), abs=0.01)


def test_a_probe_that_never_was_sent_leaves_the_place_to_the_next() -> None:
    breaker = BreakerRun(Breaker(10, 5, 120.0))
    for _ in range(5):
        number = breaker.enter(0.0)
        assert number is not None
        breaker.ended(number, well=False, now=0.0)
    probe = breaker.enter(121.0)
    assert probe is not None
    assert breaker.enter(121.0) is None
    breaker.abandoned(probe)
    assert breaker.enter(121.0) is not None


def test_after_an_outage_the_rate_comes_back_slowly__R13() -> None:
    clock = FakeClock(START)
    policy = Lane("a.example", rate=None, concurrency=100, breaker=Breaker(10, 5, 120.0))
    lane = lane_run(policy, clock)
    for _ in range(5):
        lane.call_ended(lane.enter_circuit(), well=False)
    clock.advance(121)
    lane.call_ended(lane.enter_circuit(), well=True)
    seen = []
    for _ in range(7):
        lane.most(1_000)
        seen.append(lane.room(1_000))
        clock.advance(10)
    assert seen[0] == 10
    assert seen == sorted(seen)
    assert seen[-1] == 100
