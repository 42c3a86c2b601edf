"""A lane as its owner sees it: slow-down, caps, concurrency, and what survives a change of owner."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from forager.core.http import Request, Response
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.engine.lanes.fetch import LaneFetch, MustSnooze, Resources, Surroundings
from forager.engine.lanes.lane import LaneRun
from forager.engine.waits import HORIZON, LONGEST_CAP_REST, LONGEST_HOLD
from tests.support.clock import FakeClock
from tests.support.stepped_clock import SteppedClock, settle

POLICY = Lane("api", rate=100, burst=1, concurrency=10)


def owned(**more: object) -> OwnedLane:
    return OwnedLane(**{"id": 1, "name": "api", "state": {}, **more})  # type: ignore[arg-type]


def test_no_more_is_leased_than_may_be_in_flight() -> None:
    lane = LaneRun(owned(), POLICY, FakeClock())
    for _ in range(8):
        lane.start(price=1)
    assert lane.most(free=100) <= 2
    assert lane.most(free=1) <= 1
    lane.start(1)
    lane.start(1)
    assert lane.most(free=100) == 0


def test_a_429_slows_the_lane_by_a_fifth_and_thirty_quiet_seconds_restore_it__PL_9() -> None:
    clock = FakeClock()
    lane = LaneRun(owned(), Lane("api", rate=100, burst=1, concurrency=1_000), clock)
    full = lane.most(1_000)
    lane.slow_down(None)
    assert lane.most(1_000) < full
    clock.advance(29)
    lane.slow_down(None)
    once = lane.most(1_000)
    clock.advance(29)
    assert lane.most(1_000) == once, "a second 429 restarts the period and does not slow down further"
    clock.advance(2)
    assert lane.most(1_000) == full


def test_retry_after_is_obeyed_if_one_comes__PL_9() -> None:
    clock = FakeClock()
    lane = LaneRun(owned(), POLICY, clock)
    lane.slow_down(7.0)
    clock.advance(7.0 - HORIZON - 0.01)
    assert lane.most(10) == 0
    clock.advance(HORIZON + 0.02)
    assert lane.most(10) > 0


def test_a_lane_with_an_earlier_owner_waits_one_interval_first() -> None:
    clock = FakeClock()
    assert LaneRun(owned(epoch=1), POLICY, clock).most(10) > 0
    second = LaneRun(owned(epoch=2), POLICY, clock)
    assert second.most(10) == 0
    clock.advance(POLICY.per)
    assert second.most(10) > 0


def test_a_slow_down_travels_with_the_lane_to_its_next_owner() -> None:
    clock = FakeClock()
    first = LaneRun(owned(), Lane("api", rate=100, burst=1, concurrency=1_000), clock)
    full = first.most(1_000)
    first.slow_down(None)
    second = LaneRun(owned(state=first.state()), Lane("api", rate=100, burst=1, concurrency=1_000), clock)
    assert second.most(1_000) < full
    clock.advance(31)
    assert second.most(1_000) == full


def test_the_cap_of_a_day_holds_with_what_is_in_flight_and_ends_at_midnight_utc__PL_11() -> None:
    clock = FakeClock(datetime(2026, 3, 31, 23, 59, 0, tzinfo=UTC))
    lane = LaneRun(owned(spent_day=7, spent_month=7), Lane("api", rate=1_000, cap_day=10, cap_month=100), clock)
    assert lane.most(50) == 3
    lane.start(1)
    assert lane.most(50) == 2
    lane.end(price=1, cost=3)
    assert lane.most(50) == 0
    clock.advance(61)
    assert lane.most(50) == 10


def test_the_cap_of_a_month_outlives_the_day_and_ends_with_the_month__PL_11() -> None:
    clock = FakeClock(datetime(2026, 3, 30, 12, tzinfo=UTC))
    lane = LaneRun(owned(spent_day=0, spent_month=100), Lane("api", rate=1_000, cap_month=100), clock)
    clock.advance(24 * 3600)
    assert lane.most(50) == 0
    clock.advance(24 * 3600)
    assert lane.most(50) > 0


def test_a_retry_after_of_years_is_obeyed_for_an_hour_also_by_the_next_owner() -> None:
    clock = FakeClock()
    first = LaneRun(owned(), POLICY, clock)
    first.slow_down(999_999_999.0)
    clock.advance(LONGEST_HOLD / 2)
    second = LaneRun(owned(epoch=2, state=first.state()), POLICY, clock)
    clock.advance(LONGEST_HOLD / 2 - 1)
    assert first.most(10) == second.most(10) == 0
    clock.advance(1.1)
    assert first.most(10) > 0
    assert second.most(10) > 0


def test_a_lane_without_another_owner_in_between_continues_without_a_pause() -> None:
    clock = FakeClock()
    lane = LaneRun(owned(epoch=1), POLICY, clock)
    assert lane.is_next_owner(owned(epoch=2, spent_day=5))
    assert lane.most(10) > 0
    assert not lane.is_next_owner(owned(epoch=4)), "somebody else had it as number 3"


def test_a_lane_at_its_cap_shows_that_in_its_state__PL_11() -> None:
    clock = FakeClock(datetime(2026, 1, 1, 18, tzinfo=UTC))
    capped = LaneRun(owned(spent_day=3), Lane("api", cap_day=3), clock)
    midnight = datetime(2026, 1, 2, tzinfo=UTC)
    assert capped.state() == {"capped": True, "capped_until": round(midnight.timestamp() * 1000)}
    assert capped.wake_time(clock.monotonic()) == clock.monotonic() + 6 * 3600, "no poll is needed to go on"
    assert capped.rests(clock.monotonic()) == LONGEST_CAP_REST, "after which the cap may have been raised"


def test_of_several_origins_in_a_lane_the_slowest_crawl_delay_counts() -> None:
    clock = FakeClock()
    lane = LaneRun(owned(), Lane("a.example", rate=None, site=True, robots=True), clock)
    lane.obey_crawl_delay("https://m.a.example", 30.0)
    lane.obey_crawl_delay("https://www.a.example", None)
    lane.plan_request()
    assert lane.rests(clock.monotonic()) == 30.0
    lane.obey_crawl_delay("https://m.a.example", None)
    assert lane.rests(clock.monotonic()) == 0.0


def test_a_new_owner_waits_as_long_as_the_rules_of_the_last_one_required__SC_P26() -> None:
    clock = FakeClock()
    policy = Lane("a.example", rate=1, per=15.0, slow_by=0.5, slow_for=300.0, site=True)
    first = LaneRun(owned(), policy, clock)
    first.slow_down(None)
    first.obey_crawl_delay("https://a.example", 60.0)
    second = LaneRun(owned(epoch=2, state=first.state()), policy, clock)
    assert second.rests(clock.monotonic()) >= 60.0
    third = LaneRun(
        owned(epoch=2, state={"slow_until": round(clock.now().timestamp() * 1000) + 200_000}), policy, clock
    )
    assert third.rests(clock.monotonic()) >= 30.0, "half the rate is one in thirty seconds"


async def test_nothing_is_sent_in_a_lane_that_was_given_back_meanwhile() -> None:
    clock = FakeClock()
    own = LaneRun(owned(), Lane("own", site=True), clock)
    other = LaneRun(owned(id=2, name="other"), Lane("other", site=True), clock)
    sent: list[str] = []

    async def fetch(request: Request) -> Response:
        sent.append(request.url)
        return Response(request.url, 200, {}, b"", clock.now(), 1)

    async def lane_of(_: str, __: LaneRun) -> LaneRun:
        return other

    async def ask() -> None:
        await LaneFetch(Surroundings(Resources(fetch), lambda: True, lane_of), own, own.start(0))(
            Request("http://other.example/")
        )

    await ask()
    other.ours = False
    with pytest.raises(MustSnooze):
        await ask()
    assert len(sent) == 1
    assert other.in_flight == 0


async def test_a_second_request_of_a_task_goes_before_those_that_came_after_the_task__SC_7() -> None:
    """A task keeps its ticket: its second request enters the line in front of tasks that were leased later."""
    clock = FakeClock()
    lane = LaneRun(owned(), Lane("api", rate=1, per=10.0, burst=1, concurrency=10), clock)
    first, second, third = lane.ticket(), lane.ticket(), lane.ticket()
    for _ in range(4):
        lane.plan_request()
    assert lane.start_at_once(first)
    lane.left()
    sent: list[int] = []

    async def send(ticket: int) -> None:
        assert await lane.wait_to_send(ticket, longest=1e9) == 0.0
        sent.append(ticket)
        lane.left()

    async with asyncio.timeout(30):
        await asyncio.gather(send(second), send(third), send(first))
    assert sent == [first, second, third]


async def test_a_request_that_was_woken_early_waits_for_its_moment_without_turning() -> None:
    """A request that joins the line wakes the first one, whose moment may be an earlier one now. It looks once, and
    sleeps again: it must not look in every turn of the loop."""
    clock = SteppedClock()
    lane = LaneRun(owned(), Lane("api", rate=1, per=60.0, burst=1, concurrency=10), clock)
    first, second = lane.ticket(), lane.ticket()
    lane.plan_request()
    assert lane.start_at_once(lane.ticket())
    lane.left()
    waiting = [asyncio.create_task(lane.wait_to_send(each, longest=1e9)) for each in (first, second)]
    await settle()
    looks, wait_of = 0, lane._wait_of

    def counted(*given: Any) -> float | None:
        nonlocal looks
        looks += 1
        return wait_of(*given)

    lane._wait_of = counted  # type: ignore[method-assign,assignment]
    lane._line[0].changed.set()
    for _ in range(10):
        await settle()
    assert looks == 1
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
