"""Caps of a lane per hour, day and month, and when each of them ends."""

from datetime import UTC, datetime

import pytest

from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.engine.lanes.lane import NO_CAP, Caps, LaneRun, LaneUsers
from forager.engine.waits import LONGEST_CAP_REST
from tests.support.clock import FakeClock

HOUR, DAY = 3_600.0, 86_400.0


def caps(clock: FakeClock, *, spent: tuple[int, int, int] = (0, 0, 0), **lane: int) -> Caps:
    return Caps(Lane("api", **lane), clock, OwnedLane(1, "api", {}, 1, *spent))  # type: ignore[arg-type]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 3, 30, 22, 15, tzinfo=UTC))


def test_each_cap_ends_with_its_own_period_and_the_longest_that_is_reached_counts(clock: FakeClock) -> None:
    assert caps(clock, spent=(5, 9, 9), cap_hour=5, cap_day=10).wait() == 45 * 60
    assert caps(clock, spent=(5, 10, 10), cap_hour=5, cap_day=10).wait() == HOUR + 45 * 60
    month = caps(clock, spent=(5, 10, 20), cap_hour=5, cap_day=10, cap_month=20)
    assert month.wait() == DAY + HOUR + 45 * 60


def test_a_new_hour_starts_at_zero_and_earlier_spending_still_counts_for_the_day(clock: FakeClock) -> None:
    spending = caps(clock, cap_hour=5, cap_day=8)
    spending.spend(0, 5)
    assert (spending.affordable(), spending.wait()) == (0, 45 * 60)
    clock.advance(45 * 60)
    assert (spending.affordable(), spending.wait()) == (3, 0.0)
    spending.spend(0, 3)
    assert spending.wait() == HOUR
    clock.advance(HOUR)
    assert spending.affordable() == 5


def test_units_that_are_reserved_count_but_do_not_make_anything_wait_for_the_next_period(clock: FakeClock) -> None:
    spending = caps(clock, cap_hour=5)
    spending.reserved = 5
    assert (spending.affordable(), spending.wait()) == (0, 0.0)
    spending.spend(5, 2)
    assert spending.affordable() == 3
    assert spending.wait(units=4) == 45 * 60, "fewer are left in this hour"


def test_without_a_cap_nothing_is_counted_as_too_much(clock: FakeClock) -> None:
    free = caps(clock)
    free.spend(0, 10**9)
    assert (free.affordable(), free.wait()) == (NO_CAP, 0.0)


def lane_run(clock: FakeClock, *, users: str) -> LaneRun:
    known = LaneUsers()
    known.use(users, clock.monotonic())
    owned = OwnedLane(1, "api", {}, 1, 3, 3, 3)
    return LaneRun(owned, Lane("api", cap_hour=3), clock, skippers=frozenset({"skips"}), users=known)


def test_a_capped_lane_gives_out_tasks_only_where_some_want_to_be_skipped(clock: FakeClock) -> None:
    waits, skips = lane_run(clock, users="waits"), lane_run(clock, users="skips")
    assert (waits.most(50), skips.most(50)) == (0, 50)
    assert (waits.rests(clock.monotonic()), skips.rests(clock.monotonic())) == (LONGEST_CAP_REST, 0.0)
    assert not waits.affords(1)
    clock.advance(45 * 60)
    assert waits.affords(3)
    assert not waits.affords(4)
    assert 0 < waits.most(50) <= 3


def test_a_cap_belongs_to_all_workers_together() -> None:
    with pytest.raises(ValueError, match="all workers together"):
        Lane("serper", cap_day=10, scope="worker")
    assert Lane("serper", cap_day=10).scope == "all"
