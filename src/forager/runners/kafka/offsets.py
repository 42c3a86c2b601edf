"""Which messages of a partition are done with, so that its offset can be committed. Pure.

Kafka knows one offset per partition: everything before it is done. Tasks end in any order, so an offset waits here
until all messages before it are done, too.
"""

from collections import deque


class PartitionOffsets:
    """The messages of one partition that were taken and are not committed yet."""

    def __init__(self) -> None:
        self._taken: deque[int] = deque()
        self._done: set[int] = set()

    def __len__(self) -> int:
        """How many messages were taken whose end is not known."""
        return len(self._taken) - len(self._done)

    def take(self, offset: int) -> None:
        """Note that a message was taken. Messages are taken in the order of their offsets."""
        self._taken.append(offset)

    def finish(self, offset: int) -> None:
        """Note that a message is done with."""
        self._done.add(offset)

    def advance(self) -> int | None:
        """Return the offset to commit, that of the first message that is not done; None if it has not moved."""
        last: int | None = None
        while self._taken and self._taken[0] in self._done:
            last = self._taken.popleft()
            self._done.discard(last)
        return None if last is None else last + 1
