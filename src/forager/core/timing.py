"""Time-outs that do not count what is waited for others."""

import asyncio


class standing_still:  # noqa: N801  (reads as a word in a with statement, as contextlib's own do)
    """While the block runs, the time-out's clock does not. Every request passes here, so it is no generator."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: asyncio.Timeout | None) -> None:
        self._limit = limit
        self._left: float | None = None

    def __enter__(self) -> None:
        if self._limit is not None and (ends := self._limit.when()) is not None:
            self._left = ends - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def __exit__(self, *_: object) -> None:
        if self._limit is not None and self._left is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left)
