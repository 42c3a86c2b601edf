"""The lane's limit in any window, as pure arithmetic over injected times."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.engine.lanes.pace import Limiter


def busiest_window(starts: list[float], per: float) -> int:
    """Most starts in any half-open window of `per` seconds."""
    best, first = 0, 0
    for last, at in enumerate(starts):
        while starts[first] + per <= at:
            first += 1
        best = max(best, last - first + 1)
    return best


def run_starts(limiter: Limiter, count: int, lateness: list[float]) -> list[float]:
    """Plan and start `count` requests as a lane does; each is late by the next of `lateness`."""
    now, starts = 100.0, []
    for number in range(count):
        at = limiter.plan(now)
        now = max(now, at) + lateness[number % len(lateness)]
        while (allowed := limiter.start(now)) > now:
            now = allowed
        limiter.left(now)
        starts.append(now)
    return starts


@given(
    rate=st.integers(1, 50),
    per=st.sampled_from([0.5, 1.0, 10.0]),
    burst=st.integers(1, 60),
    lateness=st.lists(st.floats(0, 0.7), min_size=1, max_size=20),
)
def test_no_window_holds_more_than_the_rate_however_late_the_process_is_trap_4__PL_8(
    rate: int, per: float, burst: int, lateness: list[float]
) -> None:
    starts = run_starts(Limiter(rate, per, burst), 3 * rate + 20, lateness)
    assert busiest_window(starts, per) <= rate


@given(rate=st.integers(1, 20), burst=st.integers(1, 20), delays=st.lists(st.floats(0, 1.5), min_size=1, max_size=30))
def test_a_request_counts_when_it_leaves_however_long_its_connection_took__PL_8(
    rate: int, burst: int, delays: list[float]
) -> None:
    limiter = Limiter(rate, 1.0, burst)
    now = 0.0
    started = 0
    connecting: list[float] = []
    departures: list[float] = []
    while started < 4 * rate + 10:
        for done in sorted(each for each in connecting if each <= now):
            connecting.remove(done)
            limiter.left(done)
            departures.append(done)
        allowed = limiter.start(now)
        if allowed <= now:
            connecting.append(now + delays[started % len(delays)])
            started += 1
        else:
            now = min([allowed, *(each for each in connecting if each > now)])
    assert busiest_window(sorted(departures + connecting), 1.0) <= rate


def test_what_never_left_makes_room_for_another() -> None:
    limiter = Limiter(1, 1.0, 1)
    assert limiter.start(5.0) == 5.0
    assert limiter.start(5.1) > 5.1
    limiter.gave_up()
    assert limiter.start(5.2) == 5.2


def test_a_token_bucket_of_the_same_rate_would_let_almost_twice_as_many_into_a_window_trap_4() -> None:
    """The negative control of trap 4: the check above is able to fail."""
    tokens, filled_at, starts = 300.0, 0.0, []
    for now in [0.999] * 300 + [1.0 + n / 300 for n in range(300)]:
        tokens, filled_at = min(300.0, tokens + (now - filled_at) * 300), now
        if tokens >= 1:
            tokens -= 1
            starts.append(now)
    assert busiest_window(starts, 1.0) > 590


def test_the_rate_is_nearly_reached_by_a_punctual_process__PL_17() -> None:
    starts = run_starts(Limiter(300, 1.0, 10), 3_000, [0.0])
    assert 2_999 / (starts[-1] - starts[0]) > 300 * 0.965


def test_a_small_burst_makes_up_for_a_short_stall() -> None:
    starts = run_starts(Limiter(300, 1.0, 10), 600, [0.03] + [0.0] * 99)
    assert 599 / (starts[-1] - starts[0]) > 300 * 0.96


def test_available_tokens_are_those_that_can_be_planned_within_the_horizon() -> None:
    limiter = Limiter(100, 1.0, 1)
    offered = limiter.available(50.0, 0.1, 1_000)
    planned = [limiter.plan(50.0) for _ in range(offered + 1)]
    assert 9 <= offered <= 11
    assert planned[offered - 1] <= 50.1 < planned[offered]


def test_nothing_is_planned_before_the_moment_a_lane_is_held_until() -> None:
    limiter = Limiter(100, 1.0, 20)
    limiter.hold_until(60.0)
    assert limiter.available(50.0, 0.1, 10) == 0
    assert limiter.plan(50.0) >= 60.0


def test_a_lane_without_a_rate_never_waits() -> None:
    limiter = Limiter(None, 1.0, 1)
    assert limiter.available(5.0, 0.1, 512) == 512
    assert limiter.plan(5.0) == limiter.start(5.0) == 5.0


def test_slowing_down_lowers_the_limit_and_undoing_it_restores_it() -> None:
    limiter = Limiter(100, 1.0, 1)
    limiter.slow_to(0.8)
    slow = run_starts(limiter, 400, [0.0])
    assert busiest_window(slow, 1.0) <= 80
    limiter.slow_to(1.0)
    assert limiter.rate == 100


def test_a_place_that_is_given_back_is_the_next_to_be_had() -> None:
    for gap in (None, lambda: 2.0):
        limiter = Limiter(1, 6.0, 1, gap)
        first = limiter.plan(100.0)
        second = limiter.plan(100.0)
        limiter.unplan(second)
        assert second > first
        assert limiter.plan(100.0) == pytest.approx(second)


@given(low=st.floats(0.1, 2.0), more=st.floats(0, 2.0), lateness=st.lists(st.floats(0, 3.0), min_size=1, max_size=9))
def test_a_gap_lies_between_any_two_departures_however_late_they_are(
    low: float, more: float, lateness: list[float]
) -> None:
    starts = run_starts(Limiter(None, 1.0, 1, lambda: low + more), 30, lateness)
    assert min(later - sooner for sooner, later in pairwise(starts)) >= low + more - 1e-6


@given(rate=st.floats(0.05, 0.99), per=st.sampled_from([1.0, 10.0]))
def test_less_than_one_start_is_one_in_a_longer_window(rate: float, per: float) -> None:
    starts = run_starts(Limiter(rate, per, 3), 6, [0.0])
    assert min(later - sooner for sooner, later in pairwise(starts)) >= per / rate
