"""Allowed hours: whole hours of the UTC day, also across midnight."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.pipeline import Hours, Lane
from forager.core.rules import AllowedHours, Rules
from forager.engine.lanes.rules.policy_file import Policies
from forager.engine.lanes.rules.precedence import Politeness

DAY = datetime(2026, 3, 14, tzinfo=UTC)
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def inside(start: int, end: int, moment: datetime) -> bool:
    """Count the hours from one to the other, round the clock."""
    open_hours = set()
    hour = start % 24
    for _ in range((end - start) % 24 or 24):
        open_hours.add(hour)
        hour = (hour + 1) % 24
    return moment.hour in open_hours


# Feature: scraping-microservices, Property 24: Allowed scraping hours enforcement
@settings(max_examples=100)
@given(start=st.integers(0, 23), end=st.integers(0, 24), moment=moments)
def test_a_task_may_run_exactly_inside_the_hours_of_its_domain__SC_P24(start: int, end: int, moment: datetime) -> None:
    hours = lane_hours(start, end)
    assert hours.open_at(moment) == inside(start, end, moment)


@settings(max_examples=100)
@given(start=st.integers(0, 23), end=st.integers(0, 24), moment=moments)
def test_it_waits_for_the_first_moment_that_is_inside__SC_P24(start: int, end: int, moment: datetime) -> None:
    hours = lane_hours(start, end)
    opening = hours.opens_after(moment)
    assert hours.open_at(opening)
    assert timedelta(0) <= opening - moment < timedelta(days=1)
    step = moment
    while step + timedelta(minutes=30) < opening:
        assert not hours.open_at(step), "there was an earlier one"
        step += timedelta(minutes=30)
    assert opening == moment or not hours.open_at(opening - timedelta(microseconds=1))


def test_hours_across_midnight_are_open_on_both_sides_of_it__SC_P24() -> None:
    night = Hours(22, 6)
    assert [hour for hour in range(24) if night.open_at(DAY.replace(hour=hour))] == [0, 1, 2, 3, 4, 5, 22, 23]
    assert night.opens_after(DAY.replace(hour=6)) == DAY.replace(hour=22)
    assert night.opens_after(DAY.replace(hour=21, minute=59)) == DAY.replace(hour=22)
    assert night.opens_after(DAY.replace(hour=3, minute=7)) == DAY.replace(hour=3, minute=7)


def test_the_end_is_outside_and_the_start_inside__SC_P24() -> None:
    day = Hours(6, 22)
    assert day.open_at(DAY.replace(hour=6))
    assert day.open_at(DAY.replace(hour=21, minute=59, second=59, microsecond=999_999))
    assert not day.open_at(DAY.replace(hour=22))
    assert not day.open_at(DAY.replace(hour=5, minute=59, second=59))
    assert day.opens_after(DAY.replace(hour=22)) == DAY.replace(hour=6) + timedelta(days=1)


def test_a_start_that_is_the_end_is_the_whole_day__SC_P24() -> None:
    assert all(Hours(9, 9).open_at(DAY.replace(hour=hour)) for hour in range(24))
    assert Hours(9, 9).opens_after(DAY) == DAY


def lane_hours(start: int, end: int) -> Hours:
    """Hours as a domain's rules pass them to its lane; rules cannot express equal start and end, only code can."""
    if start == end:
        return Hours(start, end)
    rules = Rules(allowed_hours=AllowedHours(start=start, end=end))
    lane: Lane = Politeness(Policies({"example.com": rules})).lane_for("example.com")
    assert lane.hours is not None
    return lane.hours
