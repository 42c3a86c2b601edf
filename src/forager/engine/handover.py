"""What a lane's owner tells the next one about its pace, so that the lane goes on at its exact rate without a pause.

It is written only when a lane is given back with nothing in flight, together with the number of that ownership: after a
crash, or when another session had the lane in between, it is out of date, and the next owner waits for one window.
Moments are written in the store's time, later by as much as our idea of that time may be behind.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forager.core.clock import Clock
from forager.engine.store_clock import slack_of

FARTHEST = 365 * 86_400.0
"""A start that is planned for later than this, of a lane with next to no rate, is written as if it were this."""
MOST_SENT = 1_000
"""A longer log than this is not handed over: waiting for one window costs less than to keep it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How far a limiter has come, in moments of a monotonic clock."""

    window: float
    """Seconds for which a request counts …"""
    sent: tuple[float, ...]
    """… when those left that still count …"""
    planned: float
    """… when the next is planned, by the pace alone …"""
    gap_ends: float
    """… when the gap after the last of them ends …"""
    last: float
    """… and when that one left."""


def write_pace(pace: Pace, epoch: int, clock: Clock) -> Mapping[str, Any]:
    """The pace as JSON for the next owner; nothing if it would be too long."""
    if len(pace.sent) > MOST_SENT:
        return {}
    ahead = clock.now().timestamp() - clock.monotonic() + slack_of(clock)
    farthest = clock.monotonic() + FARTHEST

    def moment(at: float) -> int | None:
        return math.ceil((min(at, farthest) + ahead) * 1000) if at > 0 else None

    known = {
        "epoch": epoch,
        "window": pace.window,
        "sent": [moment(at) for at in pace.sent],
        "planned": moment(pace.planned),
        "gap_ends": moment(pace.gap_ends),
        "last": moment(pace.last),
    }
    return {"pace": {name: value for name, value in known.items() if value is not None}}


def read_pace(state: Mapping[str, Any], epoch: int, clock: Clock) -> Pace | None:
    """What the owner before number `epoch` wrote; None if it wrote nothing that still holds."""
    known = state.get("pace")
    if not isinstance(known, Mapping) or known.get("epoch") != epoch - 1:
        return None
    ahead = clock.now().timestamp() - clock.monotonic()
    sent = known.get("sent")
    window = known.get("window")
    if not isinstance(sent, list) or not all(isinstance(at, int) for at in sent) or not isinstance(window, int | float):
        return None

    def moment(name: str) -> float:
        at = known.get(name)
        return at / 1000 - ahead if isinstance(at, int) else -math.inf

    return Pace(window, tuple(at / 1000 - ahead for at in sent), moment("planned"), moment("gap_ends"), moment("last"))
