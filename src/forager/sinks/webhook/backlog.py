"""How many messages may wait for one receiver before further changes stay in the log.

A message is a task of its own, which costs several times what reading the change costs, and a receiver that is away
takes none. So beyond a number of waiting messages the sink makes more only while the receiver accepts some, and
otherwise a batch after pauses that grow, as any sink that cannot be reached is tried again. Such a batch is also the
probe: its first tries are due at once, even if every older message waits hours for its next. A receiver that refuses
some messages and accepts others is therefore never held up by those it refuses.
"""

MOST_WAITING = 1_000
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds, as for a sink that cannot be reached."""


class Backlog:
    """The messages of one receiver's job. Pure: counters and times are arguments."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._accepted: int | None = None
        self._pause = FIRST_PAUSE
        self._next = 0.0

    def is_long(self, waiting: int) -> bool:
        """Return whether so many messages wait that the receiver may be away."""
        return waiting >= self._most

    def has_room(self, waiting: int, accepted: int, now: float) -> bool:
        """Return whether another batch of messages may be made; the caller then makes one.

        `accepted` is the job's counter of delivered messages. Any change of it is progress, because pruning lowers it.
        """
        if self._accepted is None and self.is_long(waiting):  # the first look: progress is not known yet
            self._accepted, self._next = accepted, now + self._pause
            return False
        if accepted != self._accepted or not self.is_long(waiting):
            self._accepted, self._pause = accepted, FIRST_PAUSE
        elif now < self._next:
            return False
        else:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._next = now + self._pause
        return True
