"""Who gets the places of a process when its lanes want more of them than are free. Pure: no store, no clock.

The lowest turn first, then the lane that was served longest ago. Lanes that share a turn so have theirs one after the
other, and a higher turn is one no more when its job has aged: nobody waits for ever.
"""

from collections.abc import Collection, Iterable, Sequence

from forager.core.ledger import Want
from forager.engine.lane import LaneRun

LANE_TO_FREE = 3
"""A lane may hold so many times the places that are still free: one that never answers leaves room for the others."""


def share_out(lanes: Iterable[LaneRun], free: int) -> tuple[list[Want], bool]:
    """What to lease for each, in this order; and whether somebody might have taken more."""
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
    """Of those that were served together, who got less is before who got more. Who makes room gets nothing more."""
    return sorted((lane for lane in lanes if not lane.leaving), key=lambda lane: (lane.turn, lane.served))


def longest_held(lanes: Iterable[LaneRun], most: int, held_before: float) -> list[LaneRun]:
    """Which lanes go to sessions that have less than their share: those that were taken first, so that each lane moves
    at most once in a quantum. Lanes that leave already count; who was taken after `held_before` stays for now."""
    known = list(lanes)
    staying = sorted((lane for lane in known if not lane.leaving), key=lambda lane: lane.taken_at)
    old = [lane for lane in staying if lane.taken_at <= held_before]
    return old[: max(0, most - (len(known) - len(staying)))]


def who_leaves(lanes: Collection[LaneRun], waiting: Sequence[int], held_before: float) -> list[LaneRun]:
    """Which lanes make room for those that nobody has: the highest turns, of these the ones that were taken first.

    `waiting`: their turns, lowest first; for the first of them others may make room already. `held_before`: who was
    taken later has not had its time yet. Nobody goes for a higher turn than its own.
    """
    going = sum(lane.leaving for lane in lanes)
    held = sorted(
        (lane for lane in lanes if lane.taken_at <= held_before and not lane.leaving),
        key=lambda lane: (-lane.turn, lane.taken_at),
    )
    return [lane for lane, turn in zip(held, waiting[going:], strict=False) if turn <= lane.turn]
