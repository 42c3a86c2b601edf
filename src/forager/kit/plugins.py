"""What other packages add to this installation, by entry points."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def installed(group: str) -> tuple[Any, ...]:
    """Load everything that is declared under a group. Searched once in a process: installed packages do not change."""
    return tuple(point.load() for point in entry_points(group=group))
