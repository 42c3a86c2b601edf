"""Which suspects run next: pure, the same for both stores.

The smallest group goes first, as many as may run together, within the limits of their jobs and the room of their lanes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from forager.core.states import ALONE_CRASHES, WAITING_CRASHES

MOST_SUSPECTS = 4_096
"""So many are looked at; more can never be in one group."""


class Suspect(NamedTuple):
    """A row of the stores' query, in its order."""

    task: int
    lane: int
    together: int
    price: int
    job: int
    running: int
    concurrency: int | None
    max_cost: int | None
    committed: int


def group_size(died_together: int) -> int:
    """At most half as many as before; a crash of so many that this matters is no crash of one task."""
    return max(1, min(MOST_SUSPECTS, died_together // 2))


def is_given_up(crashes: int, waiting: int, *, waits: bool | None) -> bool:
    """Return whether one more crash makes a dead letter of a task that was alone at so many before: with its own code
    running, or waiting for an answer. `waits`: which of the two it was now. Each kind has its own limit, because kills
    from outside nearly always hit a task that waits."""
    return waiting + 1 >= WAITING_CRASHES if waits else crashes + 1 >= ALONE_CRASHES


def crash_error(crashes: int) -> str:
    return f"Its worker died {crashes} times while it ran nothing but this task."


def choose(suspects: Iterable[Suspect], room: Mapping[int, int] | None) -> tuple[list[int], set[int]]:
    """The tasks to lease, and the jobs that cannot pay for even one more and have nothing in flight."""
    chosen: list[int] = []
    broke: set[int] = set()
    group: int | None = None
    committed: dict[int, int] = {}
    company: defaultdict[int, int] = defaultdict(int)
    in_lane: defaultdict[int, int] = defaultdict(int)
    for s in suspects:
        if group is not None and (s.together != group or len(chosen) >= group):
            break
        if s.concurrency is not None and s.running + company[s.job] >= s.concurrency:
            continue
        if room is not None and in_lane[s.lane] >= room.get(s.lane, 0):
            continue
        would_be = committed.get(s.job, s.committed) + s.price
        if s.max_cost is not None and would_be > s.max_cost:
            if s.running == 0 and s.job not in committed:
                broke.add(s.job)
            continue
        committed[s.job] = would_be
        company[s.job] += 1
        in_lane[s.lane] += 1
        group = s.together
        chosen.append(s.task)
    return chosen, broke
