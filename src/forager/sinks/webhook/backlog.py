"""How many messages may wait for one receiver before further changes stay in the log.

A message is a task of its own, which costs several times what reading the change costs, and a receiver that is away
takes none. So beyond a number of waiting messages the sink makes more only while the receiver accepts some, and
otherwise a batch after pauses that grow, as any sink that cannot be reached is tried again. Such a batch is also the
probe: its first tries are due at once, even if every older message waits hours for its next. A receiver that refuses
some messages and accepts others is therefore never held up by those it refuses.

Only batches that made messages count. Asking costs nothing, and changes that the sink does not want are no probe.
"""

MOST_WAITING = 1_000
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds, as for a sink that cannot be reached."""


class Backlog:
    """The messages of one receiver's job. Pure: counters and times are arguments.

    `accepted` is the job's counter of delivered messages. Any change of it is progress, because pruning lowers it.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._accepted: int | None = None
        """The counter when the last batch was made."""
        self._was_long = False
        self._pause = FIRST_PAUSE
        self._next = 0.0

    @property
    def is_stuck(self) -> bool:
        """Whether the receiver accepted nothing between the last two batches although many messages waited."""
        return self._pause > FIRST_PAUSE

    def is_long(self, waiting: int) -> bool:
        """Return whether so many messages wait that the receiver may be away."""
        return waiting >= self._most

    def room_in(self, waiting: int, accepted: int, now: float) -> float:
        """Return the seconds until another batch of messages may be made; 0 if it may be made now."""
        if not self.is_long(waiting) or accepted != self._accepted:
            return 0.0
        return max(0.0, self._next - now)

    def made(self, waiting: int, accepted: int, now: float) -> None:
        """Note that a batch of messages was made. `waiting` includes these messages."""
        has_progress = accepted != self._accepted or not self._was_long
        self._pause = FIRST_PAUSE if has_progress else min(2 * self._pause, LONGEST_PAUSE)
        self._was_long = self.is_long(waiting)
        self._accepted, self._next = accepted, now + self._pause
