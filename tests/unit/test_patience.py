"""Ends of an attempt that count against patience: waits for something that may never recover, not polite waits."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from forager.core.errors import NoHealthyProxies, PoolExhausted, RateLimited, Retry, StoreUnavailable, Transient
from forager.core.http import Request, Response
from forager.core.ledger import Away, Lease, OwnedLane, Settlement
from forager.core.outcome import Halt, Outcome, Snooze
from forager.core.pipeline import Breaker, Hours, Lane, step
from forager.core.states import TaskState
from forager.core.task import Task
from forager.engine.lanes.fetch import LaneFetch, MustSnooze, Resources, Surroundings, TooLate
from forager.engine.lanes.lane import LaneRun
from forager.engine.work.attempt import attempt
from tests.support.clock import FakeClock

PATIENCE = 123.0
URL = "https://shop.test/"


class Ask(Task):
    kind: ClassVar[str] = "ask"

    def key(self) -> str:
        return "ask"

    def lane(self) -> str:
        return "shop.test"


def lane_fetch(lane: Lane, away: Away = Away.ELSEWHERE) -> LaneFetch:
    async def send(request: Request) -> Response:
        raise AssertionError("nothing may be sent")

    async def lane_of(url: str, own: LaneRun) -> LaneRun | Away:
        return away

    run = LaneRun(OwnedLane(1, "shop.test", {}), lane, FakeClock())
    return LaneFetch(Surroundings(Resources(send), lambda: True, lane_of), run, is_planned=False)


async def ended(end: Outcome | Exception, fetch: LaneFetch | None = None, **lease_: Any) -> Settlement:
    fetch = fetch or lane_fetch(Lane("shop.test"))

    async def run(task: Ask, _: Any) -> Outcome:
        if isinstance(end, Exception):
            raise end
        return end

    lease = replace(Lease(1, 1, 1, 1, 1, 0, "ask", "ask", Ask()), **lease_)
    return await attempt(lease, step(Ask, run), fetch, fetch.lane, FakeClock(), lambda: 0.0, PATIENCE)


@pytest.mark.parametrize(
    "end",
    [
        RateLimited("shop.test limited the rate of calls (429)."),
        NoHealthyProxies("none is left."),
        PoolExhausted("all browsers are taken."),
        MustSnooze(600.0, "its robots.txt cannot be read.", in_vain=True),
        Snooze(60.0, "not there yet"),
    ],
)
async def test_what_may_never_be_mended_is_waited_for_with_patience(end: Outcome | Exception) -> None:
    settlement = await ended(end)
    assert (settlement.state, settlement.burned, settlement.patience) == (TaskState.WAITING, False, PATIENCE)


@pytest.mark.parametrize(
    "end",
    [MustSnooze(600.0, "Not due yet."), TooLate(), StoreUnavailable("it is away."), Halt("a wrong key")],
)
async def test_what_is_polite_or_our_own_trouble_counts_for_nothing(end: Outcome | Exception) -> None:
    settlement = await ended(end)
    assert (settlement.burned, settlement.patience, settlement.give_up_at) == (False, None, None)


async def test_a_step_can_name_the_moment_itself() -> None:
    settlement = await ended(Snooze(60.0, "not there yet", give_up_at=datetime(2026, 1, 1, tzinfo=UTC)))
    assert settlement.give_up_at == 1_767_225_600_000


def refusal(lane: Lane, *, failures: int = 0) -> MustSnooze:
    fetch = lane_fetch(lane)
    for _ in range(failures):
        fetch.lane.call_ended(fetch.lane.enter_circuit(), well=False)
    with pytest.raises(MustSnooze) as raised:
        fetch.refuse_if_closed(fetch.lane)
    return raised.value


async def test_hours_are_no_wait_in_vain_but_an_open_breaker_is() -> None:
    hour = FakeClock().now().hour
    assert not refusal(Lane("shop.test", hours=Hours((hour + 1) % 24, (hour + 2) % 24))).in_vain
    assert refusal(Lane("shop.test", breaker=Breaker()), failures=5).in_vain


@pytest.mark.parametrize(("away", "words"), [(Away.PAUSED, "is paused"), (Away.ELSEWHERE, "Another worker owns")])
async def test_a_lane_elsewhere_is_a_wait_in_vain_and_a_paused_one_is_not(away: Away, words: str) -> None:
    with pytest.raises(MustSnooze) as raised:
        await lane_fetch(Lane("shop.test", site=True), away).lane_of(URL)
    assert raised.value.in_vain is (away is Away.ELSEWHERE)
    assert words in raised.value.why


def test_a_moment_to_give_up_at_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Snooze(60.0, "not there yet", give_up_at=datetime(2026, 1, 1))  # noqa: DTZ001 - the very mistake


# ── how long, and how often ──


async def test_a_429_waits_longer_by_what_the_task_has_waited_and_burns_nothing() -> None:
    waits = [await ended(RateLimited("fewer"), waited=ms) for ms in (None, 1_000, 3_000, 31_000, 3_600_000)]
    assert [each.wait for each in waits] == [1.0, 2.0, 4.0, 32.0, 60.0]
    assert {(each.burned, each.patience) for each in waits} == {(False, PATIENCE)}


async def test_retry_after_of_a_429_is_obeyed_whatever_the_wait_before() -> None:
    assert (await ended(RateLimited("fewer", retry_after=7.0), waited=31_000)).wait == 7.0
    assert (await ended(RateLimited("fewer", retry_after=0.0), waited=31_000)).wait == 1.0


async def test_an_error_may_bring_its_own_delays_and_attempts_are_counted_together() -> None:
    retry = Retry(delays=(300.0, 600.0))
    ends = [await ended(Transient("busy", retry=retry), attempt=attempt) for attempt in (1, 2, 3)]
    assert [(each.state.name, each.wait) for each in ends] == [("WAITING", 300.0), ("WAITING", 600.0), ("FAILED", 0.0)]
    plain = await ended(Transient("busy"), attempt=3)
    assert (plain.state.name, plain.wait) == ("WAITING", 20.0)


async def test_the_retry_limit_of_a_task_stands_above_its_steps_and_its_errors() -> None:
    never = await ended(Transient("busy", retry=Retry(delays=(300.0,))), retries=0)
    assert never.state is TaskState.FAILED
    often = await ended(Transient("busy"), attempt=5, retries=5)
    assert (often.state.name, often.wait) == ("WAITING", 80.0)
    assert (await ended(Transient("busy"), attempt=6, retries=5)).state is TaskState.FAILED
