"""The choice of lanes to serve and to give up, when a process has fewer slots than its lanes need."""

from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.ownership import by_turn, share_out, who_leaves
from tests.support.clock import FakeClock


def lane(
    number: int, *, turn: int = 0, served: tuple[float, int] = (0.0, 0), taken: float = 0.0, in_flight: int = 0
) -> LaneRun:
    run = LaneRun(OwnedLane(number, f"lane-{number}", {}), Lane("*", rate=None), FakeClock())
    run.turn, run.served, run.taken_at, run.in_flight = turn, served, taken, in_flight
    return run


def numbers(lanes: list[LaneRun]) -> list[int]:
    return [each.id for each in lanes]


def test_the_lowest_turn_comes_first_and_then_who_was_served_longest_ago() -> None:
    served = [lane(2, served=(30, 1)), lane(3, served=(20, 7)), lane(5, served=(20, 2))]
    assert numbers(by_turn([lane(1, turn=5, served=(1, 1)), *served, lane(4, turn=5)])) == [5, 3, 2, 4, 1]


def test_the_last_slot_goes_to_the_first_in_order_and_the_shortage_is_reported() -> None:
    wants, short = share_out([lane(1), lane(2)], 1)
    assert [(w.lane, w.most) for w in wants] == [(1, 1)]
    assert short


def test_one_lane_never_takes_all_places_of_many() -> None:
    wants, short = share_out([lane(1), lane(2)], 100)
    assert [(w.lane, w.most) for w in wants] == [(1, 75), (2, 19)]
    assert short


def test_without_competition_there_is_no_shortage() -> None:
    slow = [LaneRun(OwnedLane(n, "slow", {}), Lane("slow", concurrency=2), FakeClock()) for n in range(10)]
    _, short = share_out(slow, 1_000)
    assert not short


def test_a_waiting_lane_takes_the_slot_of_the_one_that_was_taken_first() -> None:
    lanes = [lane(1, taken=20), lane(2, taken=10), lane(3, taken=30)]
    assert numbers(who_leaves(lanes, [0], held_before=100)) == [2]
    assert numbers(who_leaves(lanes, [0, 0, 0, 0], held_before=100)) == [2, 1, 3]


def test_a_higher_turn_makes_room_first_and_a_lower_one_for_its_equals_only() -> None:
    lanes = [lane(1, taken=10), lane(2, turn=5, taken=20), lane(3, turn=9, taken=30)]
    assert numbers(who_leaves(lanes, [1, 1, 1], held_before=100)) == [3, 2]


def test_no_lane_is_given_up_before_its_time_is_over() -> None:
    assert numbers(who_leaves([lane(1, taken=50), lane(2, taken=5)], [0, 0], held_before=10)) == [2]


def test_no_lane_is_given_up_while_none_waits() -> None:
    assert who_leaves([lane(1)], [], held_before=100) == []


def test_who_makes_room_already_is_counted_and_gets_nothing_more() -> None:
    """Tasks in flight in it may take minutes, and turns change meanwhile."""
    going, urgent, slow = lane(1, taken=10), lane(2, taken=20), lane(3, turn=5, taken=30)
    going.leaving = True
    lanes = [going, urgent, slow]
    assert who_leaves(lanes, [0], held_before=100) == []
    assert numbers(who_leaves(lanes, [0, 0], held_before=100)) == [3]
    assert numbers(by_turn(lanes)) == [2, 3]
