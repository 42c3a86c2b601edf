"""Shares the places of a process between its lanes when they want more than are free. Pure: no store, no clock.

Lanes with the lowest turn come first, then those served longest ago. Lanes of equal turn are so served in rotation, and
a job of a higher turn moves to turn 0 when it has aged, so that no lane starves.
"""

from collections.abc import Collection, Iterable, Sequence

from forager.core.ledger import Want
from forager.engine.lane import LaneRun

LANE_TO_FREE = 3
"""A lane may hold at most so many times the places that are still free, so that a site that never answers leaves room
for other lanes."""


def share_out(lanes: Iterable[LaneRun], free: int) -> tuple[list[Want], bool]:
    """Return what to lease for each lane, in this order, and whether a lane could have used more."""
    wants: list[Want] = []
    short = False
    for lane in lanes:
        share = min(free, -(-(LANE_TO_FREE * free - lane.in_flight) // (LANE_TO_FREE + 1)))
        most = lane.most(share) if share > 0 else 0
        short = short or most >= share
        if most > 0:
            wants.append(Want(lane.id, most))
            free -= most
    return wants, short


def by_turn(lanes: Iterable[LaneRun]) -> list[LaneRun]:
    """Return the lanes in the order of service. Among lanes served at the same time, the one that got less comes first.
    A lane that is leaving gets nothing."""
    return sorted((lane for lane in lanes if not lane.leaving), key=lambda lane: (lane.turn, lane.served))


def longest_held(lanes: Iterable[LaneRun], most: int, held_before: float) -> list[LaneRun]:
    """Return the lanes to give to sessions with less than their share: those taken first, so that each lane moves at
    most once per quantum. Lanes that are leaving already count. A lane taken after `held_before` stays for now."""
    known = list(lanes)
    staying = sorted((lane for lane in known if not lane.leaving), key=lambda lane: lane.taken_at)
    old = [lane for lane in staying if lane.taken_at <= held_before]
    return old[: max(0, most - (len(known) - len(staying)))]


def who_leaves(lanes: Collection[LaneRun], waiting: Sequence[int], held_before: float) -> list[LaneRun]:
    """Return the lanes that make room for lanes without an owner: those of the highest turns, and among these the ones
    taken first.

    `waiting` has the turns of the lanes without an owner, lowest first; lanes that are leaving already make room for
    the first of them. A lane taken after `held_before` has not had its quantum and stays. No lane leaves for a higher
    turn than its own.
    """
    going = sum(lane.leaving for lane in lanes)
    held = sorted(
        (lane for lane in lanes if lane.taken_at <= held_before and not lane.leaving),
        key=lambda lane: (-lane.turn, lane.taken_at),
    )
    return [lane for lane, turn in zip(held, waiting[going:], strict=False) if turn <= lane.turn]
