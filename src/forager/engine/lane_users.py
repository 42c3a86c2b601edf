"""Tracks which pipelines use a lane. A pipeline's defaults apply to its own requests and to those of others in the same
lane.

Pure: times are arguments. A pipeline that has sent nothing for an hour no longer slows the others down.
"""

from collections.abc import Callable, Mapping
from typing import Any

from forager.core.clock import Clock

USED_FOR = 3_600.0


class LaneUsers:
    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._last)

    def use(self, pipeline: str, now: float) -> bool:
        """Note that a task of this pipeline uses the lane. Returns whether the pipeline is a new user."""
        new = pipeline not in self._last
        self._last[pipeline] = now
        return new

    def forget(self, now: float) -> bool:
        """Remove pipelines that have not used the lane for an hour. Returns whether there were any."""
        gone = [name for name, last in self._last.items() if now - last > USED_FOR]
        for name in gone:
            del self._last[name]
        return bool(gone)

    def dump(self, moment: Callable[[float], int]) -> Mapping[str, int]:
        """Return the state for the next owner; `moment` converts our time to the store's."""
        return {name: moment(last) for name, last in self._last.items()}

    @classmethod
    def read(cls, known: Any, clock: Clock) -> "LaneUsers":
        """Read the state that another owner stored; entries that cannot be read are left out."""
        users, now, store_now = cls(), clock.monotonic(), clock.now().timestamp()
        for name, at in known.items() if isinstance(known, Mapping) else ():
            if isinstance(at, int):
                users.use(str(name), now + min(0.0, at / 1000 - store_now))
        users.forget(now)
        return users
