"""Computes how many lanes a session should have while other sessions want some. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_FREE = 10_000
"""Maximum number of lanes without an owner that are counted: more make no difference."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A living session: how many lanes it has, and how many more it could use."""

    session: int
    held: int
    wants: int


def fair_share(session: int, holders: Iterable[Holder], free: int) -> int | None:
    """Return the number of lanes that this session should have; None if no other session wants any, so that it is
    unlimited.

    All owned lanes, and the `free` ones with work, are shared in equal parts; what a session cannot use of its part
    goes to the others. Parts are rounded up, so that the last lane stays where it is.
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
