"""Remembers the answers that a task received before it had to be put back in the middle, so that it does not request
them again.

The cache belongs to one worker process and is bounded: what is dropped is simply fetched again.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from forager.core.http import Request, Response

MOST_BYTES = 32 * 1024 * 1024
MOST_PER_TASK = 8 * 1024 * 1024
PER_ENTRY = 1_024


@dataclass(slots=True)
class Progress:
    """The progress of a task."""

    answers: list[tuple[Request, Response]] = field(default_factory=list)
    hops: list[tuple[Request, str, int]] = field(default_factory=list)
    """Partly followed redirects, by request: the URL reached, and the number of hops."""
    size: int = 0

    def answered(self, request: Request, response: Response) -> None:
        size = len(response.body) + len(response.screenshot or b"") + PER_ENTRY
        if self.size + size <= MOST_PER_TASK:
            self.size += size
            self.answers.append((request, response))

    def take_answer(self, request: Request) -> Response | None:
        """Return a remembered answer once: a step that repeats a request wants a fresh answer."""
        for number, (asked, response) in enumerate(self.answers):
            if asked == request:
                del self.answers[number]
                return response
        return None

    def hop_of(self, request: Request) -> tuple[str, int] | None:
        return next(((url, count) for asked, url, count in self.hops if asked == request), None)

    def hopped(self, request: Request, url: str, count: int) -> None:
        self.hops = [hop for hop in self.hops if hop[0] != request]
        self.hops.append((request, url, count))
        self.size += PER_ENTRY


class Memo:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[int, Progress] = OrderedDict()

    def keep(self, task: int, progress: Progress) -> None:
        """Keep the progress until the task runs again, or until newer ones need the space."""
        self.take(task)
        if not progress.size:
            return
        self._kept[task] = progress
        self._size += progress.size
        while self._size > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size

    def take(self, task: int) -> Progress:
        progress = self._kept.pop(task, None)
        if progress is None:
            return Progress()
        self._size -= progress.size
        return progress
