"""Commands that wait for one transaction, and which of them one call can do.

A group of commands shares a commit, which saves syncs to disk. Adjacent commands that do the same for different items
may share their statements, too. Each gets its own result, as if it had come alone.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple


class Asked(NamedTuple):
    command: Callable[..., Any]
    items: tuple[Any, ...]
    """Its argument besides the database: none, or one item of those that it handles together."""
    future: asyncio.Future[Any]
    followed: bool = False
    """The command causes another one to be sent at once."""

    def goes_with(self, other: "Asked") -> bool:
        return bool(self.items and other.items) and self.command == other.command


def take_step(waiting: deque[Asked], most: int) -> list[Asked]:
    """Take from the front what one call handles: a single command, or up to so many adjacent ones of a kind."""
    step = [waiting.popleft()]
    while waiting and len(step) < most and waiting[0].goes_with(step[0]):
        step.append(waiting.popleft())
    return step
