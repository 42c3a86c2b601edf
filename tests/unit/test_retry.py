"""When a failed call is made again."""

from hypothesis import given
from hypothesis import strategies as st

from forager.core.pipeline import Retry
from forager.engine.retry import wait_before_retry


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
