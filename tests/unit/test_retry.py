"""Times of retries after a failed call."""

from hypothesis import given
from hypothesis import strategies as st

from forager.core.errors import Retry
from forager.engine.waits import AFTER_429, wait_before_retry, wait_without_attempt


def test_three_retries_from_five_seconds_doubling_and_then_no_more__PL_9() -> None:
    waits = [wait_before_retry(Retry(3, first=5.0), attempt, lambda: 0.0) for attempt in (1, 2, 3, 4)]
    assert waits == [5.0, 10.0, 20.0, None]


@given(attempt=st.integers(1, 60), first=st.floats(0.1, 60), cap=st.floats(1, 3_600), jitter=st.floats(0, 1))
def test_tabled_delays_are_minimums_and_jitter_adds_at_most_a_tenth_after_the_cap(
    attempt: int, first: float, cap: float, jitter: float
) -> None:
    wait = wait_before_retry(Retry(60, first=first, cap=cap), attempt, lambda: jitter)
    tabled = min(cap, first * 2.0 ** (attempt - 1))
    assert wait is not None
    assert tabled <= wait <= tabled * 1.1 + 1e-9


@given(delays=st.lists(st.floats(0.1, 1e6), max_size=20), attempt=st.integers(1, 25), jitter=st.floats(0, 1))
def test_a_table_of_delays_is_followed_to_its_end_and_no_further(
    delays: list[float], attempt: int, jitter: float
) -> None:
    wait = wait_before_retry(Retry(delays=tuple(delays)), attempt, lambda: jitter)
    if attempt > len(delays):
        assert wait is None
    else:
        assert wait is not None
        assert delays[attempt - 1] <= wait <= delays[attempt - 1] * 1.1 + 1e-6


@given(attempt=st.integers(1, 12), limit=st.integers(0, 10))
def test_a_tasks_own_limit_stands_above_the_number_and_keeps_the_delays(attempt: int, limit: int) -> None:
    for retry in (Retry(3, first=5.0), Retry(delays=(5.0, 10.0, 20.0))):
        wait = wait_before_retry(retry, attempt, lambda: 0.0, limit)
        if attempt > limit:
            assert wait is None
        else:
            assert wait == retry.delay(attempt)
    assert wait_before_retry(Retry(delays=()), attempt, lambda: 0.0, attempt) is not None


def test_a_429_without_retry_after_doubles_from_1_to_60_seconds_by_the_wait_before() -> None:
    waits, waited = [], 0.0
    for _ in range(9):
        waits.append(wait_without_attempt(AFTER_429, waited, lambda: 0.0))
        waited += waits[-1] * 1.07  # with jitter, and a moment in the queue
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


@given(waited=st.floats(0, 1e6), first=st.floats(0.01, 10), cap=st.floats(10, 1_000))
def test_waits_without_an_attempt_never_shrink_and_never_pass_the_cap(waited: float, first: float, cap: float) -> None:
    retry = Retry(first=first, cap=cap)
    wait = wait_without_attempt(retry, waited, lambda: 0.0)
    assert first <= wait <= cap
    assert wait_without_attempt(retry, waited + 1.0, lambda: 0.0) >= wait


def test_a_table_of_waits_without_an_attempt_repeats_its_last() -> None:
    retry = Retry(delays=(1.0, 5.0, 2.0))
    assert [wait_without_attempt(retry, waited, lambda: 0.0) for waited in (0, 1, 5.9, 6, 100)] == [1, 5, 5, 2, 2]
