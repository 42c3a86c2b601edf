"""Passes a lane's pace from one owner to the next, so that the lane continues at its exact rate without a pause.

The pace is stored only when a lane is given back with nothing in flight, together with the number of that ownership
(its epoch). After a crash, or if another session owned the lane in between, the epochs do not match, and the next owner
waits for one whole window instead: it cannot know what was sent in it. Moments are stored in the store's time, shifted
later by the possible error of our estimate of that time, so that an error never lets a request through too early.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forager.core.clock import Clock
from forager.engine.store_clock import slack_of

FARTHEST = 365 * 86_400.0
"""Limit for planned starts: a later one, of a lane with a very low rate, is stored as this."""
MOST_SENT = 1_000
"""Maximum length of the log. A longer one is not passed on: waiting for one window costs less than storing it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The state of a limiter, in moments of a monotonic clock."""

    window: float
    """Seconds for which a request counts."""
    sent: tuple[float, ...]
    """When each request was sent that still counts."""
    planned: float
    """When the next request is planned, by the rate alone."""
    gap_ends: float
    """When the gap after the last request ends."""
    last: float
    """When the last request was sent."""


def write_pace(pace: Pace, epoch: int, clock: Clock) -> Mapping[str, Any]:
    """Return the pace as JSON for the next owner; empty if it would be too long."""
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
    """Return the pace that the previous owner stored; None unless it was stored by the ownership directly before
    `epoch`."""
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
