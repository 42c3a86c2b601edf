"""Computes how many lanes a session should have while other sessions want some. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

MOST_FREE = 10_000
"""Maximum number of lanes without an owner that are counted: more make no difference."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A living session: how many lanes it has, and how many more it could use."""

    session: int
    held: int
    wants: int


@dataclass(frozen=True, slots=True)
class Server:
    """A living session and the queues that it serves, with the number of its lanes by queue."""

    session: int
    wants: int
    queues: frozenset[str] | None
    """None: all queues."""
    held: Mapping[str, int] = field(default_factory=dict)

    def serves(self, queue: str) -> bool:
        """Return whether it takes lanes of this queue."""
        return self.queues is None or queue in self.queues


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


def room_by_queue(session: int, servers: Iterable[Server], free: Mapping[str, int]) -> dict[str, int | None]:
    """Return, for each queue that the session serves, how many more lanes it may take: negative if it has too many,
    None if it is unlimited.

    Each queue is shared among the sessions that serve it. A session could not use lanes of other queues, so they must
    not count: they would be kept for it and stay without an owner.
    """
    known = {each.session: each for each in servers}
    own = known.get(session)
    if own is None:
        return {}
    queues = {*free, *own.held, *(own.queues or ())}
    room: dict[str, int | None] = {}
    for queue in sorted(queue for queue in queues if own.serves(queue)):
        holders = [Holder(s.session, s.held.get(queue, 0), s.wants) for s in known.values() if s.serves(queue)]
        share = fair_share(session, holders, free.get(queue, 0))
        room[queue] = None if share is None else share - own.held.get(queue, 0)
    return room


def served(queues: str | None) -> frozenset[str] | None:
    """Read the column `sessions.queues`."""
    return None if queues is None else frozenset(orjson.loads(queues))


def written(queues: Sequence[str] | None) -> str | None:
    """Return the value of the column `sessions.queues`."""
    return None if queues is None else orjson.dumps(list(queues)).decode()
