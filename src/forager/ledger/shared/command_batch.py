"""Commands that wait for one transaction, and which of them one call can do.

A group of commands shares a commit: that saves the disk's time. Neighbours that do the same for different items may
share their statements, too: that saves the database's. Each is told its own end, as if it had come alone.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple


class Asked(NamedTuple):
    command: Callable[..., Any]
    items: tuple[Any, ...]
    """What it is called with beside the database: nothing, or one item of those that it does together."""
    future: asyncio.Future[Any]
    followed: bool = False
    """It makes somebody send another one at once."""

    def goes_with(self, other: "Asked") -> bool:
        return bool(self.items and other.items) and self.command == other.command


def take_step(waiting: deque[Asked], most: int) -> list[Asked]:
    """Take from the front what one call does: a single command, or up to so many neighbours of a kind."""
    step = [waiting.popleft()]
    while waiting and len(step) < most and waiting[0].goes_with(step[0]):
        step.append(waiting.popleft())
    return step
