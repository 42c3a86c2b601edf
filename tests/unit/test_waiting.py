"""Why a lane sends nothing now, in words: one reason, the one that an operator would have to remove first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forager.app.lanes import due_message
from forager.core.pipeline import Breaker, Hours, Lane
from forager.core.states import TaskState
from forager.core.waiting import Waiting, when
from forager.engine.lanes.rules.standing import Standing, lane_waiting
from forager.ledger.reports import QueuedTask

NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
SITE = Lane("example.com", breaker=Breaker())


def ms(seconds: float) -> int:
    return round((NOW + timedelta(seconds=seconds)).timestamp() * 1000)


def waiting(state: dict[str, Any], lane: Lane = SITE, *, paused: bool = False, wake: float = -1) -> Waiting | None:
    standing = Standing.read(state, NOW, wake_at=NOW + timedelta(seconds=wake))
    return lane_waiting(lane.name, lane, standing, NOW, paused=paused)


OPEN_BREAKER = {"state": "open", "calls": "xxxxx", "open_for": 90.0, "at": ms(0)}


@pytest.mark.parametrize(
    ("state", "reason", "message", "until"),
    [
        ({"next_at": ms(8)}, "rate", "next request to example.com in 8 s", 8),
        ({"hold_until": ms(600)}, "retry_after", "example.com requested a pause; next request in 10 min", 600),
        ({"breaker": OPEN_BREAKER}, "breaker", "example.com failed too often; next try in 90 s", 90),
        ({"capped": True}, "cap", "the spending cap of example.com is reached for this hour, day or month", None),
    ],
)
def test_the_reason_names_the_lane_and_when_it_may_send_again(
    state: dict[str, Any], reason: str, message: str, until: float | None
) -> None:
    told = waiting(state)

    assert told is not None
    assert (told.reason, told.message, told.lane) == (reason, message, "example.com")
    assert told.until == (None if until is None else NOW + timedelta(seconds=until))


def test_a_pause_comes_before_hours_and_hours_before_everything_else() -> None:
    closed = replace(SITE, hours=Hours(22, 6))
    busy = {"next_at": ms(8), "breaker": OPEN_BREAKER, "capped": True}
    paused, hours = waiting(busy, closed, paused=True), waiting(busy, closed)

    assert paused is not None
    assert paused.message == "example.com is paused by an operator"
    assert hours is not None
    assert hours.message == "outside the allowed hours of example.com until 22:00 UTC"


def test_a_lane_that_was_given_back_waits_until_it_may_be_taken_again() -> None:
    told = waiting({}, wake=45)
    assert told is not None
    assert told.message == "next request to example.com in 45 s"


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"next_at": ms(0.5)},
        {"hold_until": ms(-1), "next_at": ms(-1)},
        {"breaker": {**OPEN_BREAKER, "at": ms(-91)}},
        {"breaker": 7, "hold_until": "x", "next_at": -1, "capped": "yes", "crawl_delays": [1]},
    ],
)
def test_a_lane_that_may_send_or_has_invalid_state_has_no_reason(state: dict[str, Any]) -> None:
    assert waiting(state) is None


@pytest.mark.parametrize(
    ("reason", "error", "message"),
    [
        ("rate", "The next request to example.com is not due yet.", "next request to example.com in 8 s"),
        ("unreachable", "example.com does not answer.", "example.com does not answer; next try in 8 s"),
        (None, None, "its next step is due in 8 s"),
    ],
)
def test_a_task_that_waits_for_its_due_time_shows_the_reason_in_one_sentence(
    reason: str | None, error: str | None, message: str
) -> None:
    task = QueuedTask(lane="example.com", state=TaskState.WAITING, due_at=NOW, error=error, reason=reason)
    assert due_message(task, "in 8 s") == message


def test_an_offered_task_names_who_can_take_it_now_and_when_any_worker_does() -> None:
    due = NOW + timedelta(seconds=42)
    task = QueuedTask(lane="l", state=TaskState.WAITING, due_at=due, error=None, reason=None, is_offered=True)
    assert due_message(task, when(due, NOW)) == "offered to Kafka workers; any worker takes it in 42 s"


def test_a_moment_that_is_days_ahead_is_a_date() -> None:
    assert when(NOW + timedelta(hours=47), NOW) == "in 47 h"
    assert when(datetime(2099, 1, 2, 3, 4, tzinfo=UTC), NOW) == "on 2099-01-02 03:04 UTC"
