"""The time that a site took, without waits for a lane."""

from forager.fetch.http.fetcher import Stopwatch
from tests.support.clock import FakeClock


def test_what_was_waited_for_a_lane_does_not_count() -> None:
    clock = FakeClock()
    watch = Stopwatch(clock)
    clock.advance(1.0)
    with watch.stopped():
        clock.advance(5.0)
    clock.advance(0.5)
    assert watch.ms == 1_500


def test_two_waits_at_the_same_time_count_once() -> None:
    """A page may go elsewhere while its last step still waits for a lane."""
    clock = FakeClock()
    watch = Stopwatch(clock)
    clock.advance(1.0)
    first, second = watch.stopped(), watch.stopped()
    first.__enter__()
    clock.advance(2.0)
    second.__enter__()
    clock.advance(2.0)
    first.__exit__(None, None, None)
    clock.advance(2.0)
    second.__exit__(None, None, None)
    clock.advance(0.5)
    assert watch.ms == 1_500
