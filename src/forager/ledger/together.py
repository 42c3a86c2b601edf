"""Commands that wait for one transaction, and which of them one call can do.

A group of commands shares a commit: that saves the disk's time. Neighbours that do the same for different items may
share their statements, too: that saves the database's. Each is told its own end, as if it had come alone.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple


class Asked(NamedTuple):
    command: Callable[..., Any]
    items: tuple[Any, ...]
    """What it is called with beside the database: nothing, or one item of those that it does together."""
    future: asyncio.Future[Any]
    followed: bool = False
    """It makes somebody send another one at once."""

    def goes_with(self, other: "Asked") -> bool:
        return bool(self.items) and self.command == other.command


def next_step(group: Sequence[Asked], begun: int) -> list[Asked]:
    """Those of the group, from `begun` on, that one call does: all neighbours of a kind, or a single one."""
    return list(takewhile(group[begun].goes_with, group[begun:])) or [group[begun]]
