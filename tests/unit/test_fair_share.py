"""Equal parts of the lanes for those who could use them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.ledger.rules.scheduling import Holder, fair_share


def shares(*sessions: tuple[int, int], free: int = 0) -> list[int | None]:
    """Return the shares of sessions that have and want these numbers of lanes."""
    holders = [Holder(number, held, wants) for number, (held, wants) in enumerate(sessions)]
    return [fair_share(each.session, holders, free) for each in holders]


@pytest.mark.parametrize(
    ("sessions", "free", "expected"),
    [
        ([(64, 900), (0, 1_000)], 0, [32, 32]),
        ([(64, 0), (0, 1_000)], 0, [32, None]),  # the first could use no more, and still makes room
        ([(64, 900), (0, 10)], 0, [54, 10]),
        ([(32, 900), (0, 1_000)], 32, [32, 32]),
        ([(3, 5), (0, 5)], 0, [2, 2]),
        ([(1, 5), (0, 5)], 0, [1, 1]),  # one lane stays where it is
        ([(64, 9), (64, 9), (0, 99), (0, 2)], 0, [42, 42, 42, 2]),
        ([(5, 0), (7, 0)], 0, [None, None]),
        ([(5, 9)], 3, [None]),
        ([(0, 9), (0, 9), (0, 9)], 0, [0, 0, 0]),
    ],
)
def test_lanes_are_shared_in_equal_parts_among_those_who_could_use_them(
    sessions: list[tuple[int, int]], free: int, expected: list[int | None]
) -> None:
    assert shares(*sessions, free=free) == expected


def test_a_session_that_is_not_alive_has_no_share() -> None:
    assert fair_share(9, [Holder(1, 5, 5)], 0) is None


counts = st.integers(0, 200)


@given(st.lists(st.tuples(counts, counts), min_size=2, max_size=6), counts)
def test_shares_add_up_to_no_less_than_there_is_and_at_most_one_more_for_each(
    sessions: list[tuple[int, int]], free: int
) -> None:
    found = shares(*sessions, free=free)
    supply = sum(held for held, _ in sessions) + free
    demand = sum(held + wants for held, wants in sessions)
    known = [share for share in found if share is not None]
    if len(known) == len(found):
        assert min(supply, demand) <= sum(known) <= min(supply, demand) + len(known)
    for (held, wants), share in zip(sessions, found, strict=True):
        assert share is None or share <= held + wants


@given(st.lists(st.tuples(counts, counts), min_size=2, max_size=6))
def test_after_moving_lanes_by_the_shares_no_further_lane_moves(sessions: list[tuple[int, int]]) -> None:
    """One step at a time: who is above gives, who is below takes, until nobody does."""
    demands = [held + wants for held, wants in sessions]
    held = [each for each, _ in sessions]
    for _ in range(2):
        told = shares(*[(h, d - h) for h, d in zip(held, demands, strict=True)])
        freed = sum(max(0, h - share) for h, share in zip(held, told, strict=True) if share is not None)
        held = [h if share is None else min(h, share) for h, share in zip(held, told, strict=True)]
        for number, demand in enumerate(demands):
            told = shares(*[(h, d - h) for h, d in zip(held, demands, strict=True)], free=freed)
            most = demand if told[number] is None else told[number]
            taken = max(0, min(freed, (most or 0) - held[number], demand - held[number]))
            held[number] += taken
            freed -= taken
        assert freed == 0
    told = shares(*[(h, d - h) for h, d in zip(held, demands, strict=True)])
    assert all(share is None or h <= share for h, share in zip(held, told, strict=True))
