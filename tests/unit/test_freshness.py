"""Confidence as a function of time, the moments that are stored of it, and the badge."""

from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forager.core.freshness import (
    DOUBTFUL,
    SEEN,
    VERIFIED,
    Badge,
    FreshRecord,
    badge,
    confidence,
    falls_below,
    latest_zero_below,
    zero_at,
)
from forager.core.record import CLEAR
from forager.ledger.schema.record_tables import record_tables

START = datetime(2031, 3, 4, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
BASES = st.sampled_from((SEEN, VERIFIED))
RATES = st.sampled_from((1, 2, 3))
AGES = st.integers(min_value=0, max_value=120 * 3_600_000_000).map(lambda n: timedelta(microseconds=n))


class Sofa(FreshRecord):
    """A second kind: nothing in freshness belongs to listings."""

    kind: ClassVar[str] = "sofa"
    table: ClassVar[str] = "sofas"
    key_field: ClassVar[str] = "name"

    name: str


@pytest.mark.parametrize(
    ("base", "rate", "hours", "expected"),
    [(100, 3, 0, 100), (100, 3, 20, 40), (100, 2, 30, 40), (100, 1, 60, 40), (80, 2, 5, 70), (100, 3, 34, 0)],
)
def test_confidence_falls_from_its_base_by_the_rate_per_hour_and_never_below_0__LI_11(
    base: int, rate: int, hours: int, expected: float
) -> None:
    assert confidence(base, START, rate, START + hours * HOUR) == expected


@pytest.mark.parametrize("base", [SEEN, VERIFIED])
@pytest.mark.parametrize("rate", [1, 2, 3])
def test_a_base_holds_for_a_whole_hour_and_is_green_in_it__LI_11__LI_15(base: int, rate: int) -> None:
    last = START + HOUR - timedelta(microseconds=1)
    for moment in (START, START + timedelta(seconds=1), last):
        assert confidence(base, START, rate, moment) == base
        assert badge(confidence(base, START, rate, moment), START, moment) == Badge("green", "Recently verified")
    assert confidence(base, START, rate, START + HOUR) == base - rate


def test_a_clock_that_is_behind_sees_the_full_base() -> None:
    assert confidence(SEEN, START, 3, START - HOUR) == 100


@pytest.mark.parametrize(
    ("base", "rate", "hours"),
    [(100, 3, 21), (100, 2, 31), (100, 1, 61), (80, 3, 14), (80, 2, 21), (80, 1, 41), (40, 1, 1), (30, 1, 0)],
)
def test_the_stored_moment_is_the_first_whole_hour_below_40__LI_11(base: int, rate: int, hours: int) -> None:
    moment = falls_below(base, START, rate, DOUBTFUL)
    assert moment == START + hours * HOUR
    assert confidence(base, START, rate, moment) < DOUBTFUL
    assert hours == 0 or confidence(base, START, rate, moment - timedelta(microseconds=1)) >= DOUBTFUL


def test_no_moment_is_below_0() -> None:
    with pytest.raises(ValueError, match="never below 0"):
        falls_below(SEEN, START, 1, 0)


@pytest.mark.parametrize("rate", [0, -1])
def test_a_rate_that_never_ages_is_refused(rate: int) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        zero_at(SEEN, START, rate)


@given(BASES, RATES, AGES, st.integers(1, 100))
@example(100, 3, 20 * HOUR, 40)
@example(100, 3, 21 * HOUR, 40)
@example(80, 3, 14 * HOUR - timedelta(microseconds=1), 40)
@example(80, 1, timedelta(0), 100)
def test_a_filter_on_the_stored_moment_answers_as_the_function_does__LI_11(
    base: int, rate: int, age: timedelta, level: int
) -> None:
    now = START + age
    bound = latest_zero_below(level, base, rate, now)
    by_index = bound is not None and zero_at(base, START, rate) > bound
    assert by_index == (confidence(base, START, rate, now) >= level)


@given(BASES, RATES, AGES, AGES)
def test_confidence_never_rises_and_stays_between_0_and_its_base__LI_11(
    base: int, rate: int, one: timedelta, other: timedelta
) -> None:
    early, late = (confidence(base, START, rate, START + age) for age in sorted((one, other)))
    assert 0 <= late <= early <= base


@given(BASES, RATES)
def test_confidence_is_0_at_the_stored_moment_and_not_a_second_before__LI_11(base: int, rate: int) -> None:
    zero = zero_at(base, START, rate)
    assert confidence(base, START, rate, zero) == 0
    assert confidence(base, START, rate, zero - timedelta(seconds=1)) > 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (100, Badge("green", "Recently verified")),
        (80, Badge("green", "Recently verified")),
        (79.99, Badge("yellow", "Listed 3 days ago")),
        (50, Badge("yellow", "Listed 3 days ago")),
        (49.99, Badge("orange", "May no longer be available")),
        (40, Badge("orange", "May no longer be available")),
        (39.99, None),
        (0, None),
    ],
)
def test_the_badge_follows_confidence__LI_15(value: float, expected: Badge | None) -> None:
    assert badge(value, START, START + timedelta(days=3, hours=23)) == expected


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(0), "Listed today"),
        (timedelta(hours=23, minutes=59), "Listed today"),
        (timedelta(days=1), "Listed 1 day ago"),
        (timedelta(days=40), "Listed 40 days ago"),
        (-HOUR, "Listed today"),
    ],
)
def test_the_yellow_badge_counts_whole_days_since_the_first_sighting__LI_15(age: timedelta, text: str) -> None:
    assert badge(60, START, START + age) == Badge("yellow", text)


def seen(base: float = SEEN, at: datetime = START, rate: float = 2) -> Sofa:
    return Sofa(name="a", confidence_base=base, confidence_updated_at=at, decay_rate=rate)


def test_any_kind_of_record_can_be_fresh__LI_11() -> None:
    assert record_tables([Sofa])
    assert seen().derive(None) == {"zero_at": START + 50 * HOUR, "verify_at": START + 31 * HOUR}
    assert seen().confidence(START + 10 * HOUR) == 80
    assert Sofa(name="a").confidence(START) == 0


def test_a_verification_moves_both_moments__LI_11() -> None:
    later = START + 31 * HOUR
    assert seen(VERIFIED, later).derive(seen()) == {"zero_at": later + 40 * HOUR, "verify_at": later + 21 * HOUR}


def test_a_new_rate_moves_both_moments__LI_3() -> None:
    assert seen(rate=1).derive(seen()) == {"zero_at": START + 100 * HOUR, "verify_at": START + 61 * HOUR}


def test_a_queued_verification_stays_cleared_until_the_base_moves__LI_12() -> None:
    queued = seen().model_copy(update={"verify_at": None})
    assert queued.derive(seen())["verify_at"] is None
    assert seen(at=START + HOUR).derive(queued)["verify_at"] == START + 32 * HOUR


def test_a_verification_can_be_brought_forward__LI_12() -> None:
    sooner = seen().model_copy(update={"verify_at": START + HOUR})
    assert sooner.derive(seen()) == {"zero_at": START + 50 * HOUR, "verify_at": START + HOUR}


def test_verify_at_can_be_cleared() -> None:
    assert Sofa(name="a", verify_at=CLEAR).verify_at is CLEAR
