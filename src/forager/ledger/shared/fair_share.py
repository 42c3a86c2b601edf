"""How many lanes a session should have while others could use some. Pure: rows go in, numbers come out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_FREE = 10_000
"""More lanes that nobody owns than this are not counted: that is enough for everybody."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A living session: how many lanes it has, and how many more it could use."""

    session: int
    held: int
    wants: int


def fair_share(session: int, holders: Iterable[Holder], free: int) -> int | None:
    """The lanes that this session should have; None: no other session wants any, so it may keep and take what it can.

    All lanes that are owned, and the `free` ones that have work, are shared in equal parts; a session that could use
    less than its part leaves the rest to the others. Parts are rounded up, so that the last lane stays where it is.
    """
    known = {each.session: each for each in holders}
    if session not in known or not any(each.wants > 0 for each in known.values() if each.session != session):
        return None
    demands = {each.session: each.held + each.wants for each in known.values()}
    left = sum(each.held for each in known.values()) + free
    for number, (who, demand) in enumerate(sorted(demands.items(), key=lambda each: each[1])):
        part = left / (len(demands) - number)
        if demand > part:
            return math.ceil(part) if demands[session] > part else demands[session]
        if who == session:
            return demand
        left -= demand
    return demands[session]
