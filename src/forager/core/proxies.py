"""Proxies as the engine sees them: numbers to choose from, and how they did. Addresses and passwords stay in fetch."""

from collections.abc import Callable
from typing import Protocol


class Proxies(Protocol):
    def choose(self, rests: Callable[[int], float]) -> tuple[int | None, float]:
        """The least recently used healthy proxy that does not rest, marked as used now, and 0.

        `rests` tells how many seconds a proxy must still rest for this lane. When all must, None and the shortest
        rest; when there are no proxies at all, None and 0. Raises `NoHealthyProxies` when none can be used.
        """
        ...

    def succeeded(self, proxy: int, *, elapsed_ms: int, size: int) -> None: ...

    def failed(self, proxy: int) -> None:
        """No connection through it: it is unhealthy until a check restores it."""
        ...
