"""A lane between the ledger and the session that owns it: taken, given back, or refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from forager.core.pipeline import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class GivenLane:
    """A lane that is given back: the state for its next owner, and the earliest time at which it may be taken again."""

    state: Mapping[str, Any] = field(default_factory=dict)
    not_before: int | None = None


@dataclass(frozen=True, slots=True)
class OwnedLane:
    """A lane that a session now owns. `state` is what the last owner stored (rates, breaker), opaque to the ledger."""

    id: int
    name: str
    state: Mapping[str, Any]
    epoch: int = 1
    """How often it was taken: 1 means that it never had an owner before."""
    spent_hour: int = 0
    spent_day: int = 0
    spent_month: int = 0
    queue: str = DEFAULT_QUEUE
    shared: bool = False
    """Whether other sessions use it at the same time (`Lane.scope` is `worker`): it has no owner and no stored
    state."""


class Away(Enum):
    """Why a lane cannot be taken."""

    PAUSED = "it is paused"
    ELSEWHERE = "another worker has it"


@dataclass(frozen=True, slots=True)
class Demand:
    """The turns of lanes, needed when there is not enough room for all."""

    own: Mapping[int, int] = field(default_factory=dict)
    """The lowest turn of the queued tasks, by lane."""
    waiting: Sequence[int] = ()
    """The same for the lanes that have work and no owner, lowest first."""
