"""Answers of tasks that had to be put back in the middle: when such a task runs again, it does not ask again.

Only for the same worker process, and bounded: what is forgotten is simply fetched once more.
"""

from collections import OrderedDict

from forager.core.http import Request, Response

MOST_BYTES = 32 * 1024 * 1024
Answers = list[tuple[Request, Response]]


class Memo:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[int, Answers] = OrderedDict()

    def keep(self, task: int, answers: Answers) -> None:
        """Until the task comes again, or newer ones need the room."""
        self.take(task)
        if not answers:
            return
        self._kept[task] = answers
        self._size += _size(answers)
        while self._size > self._most:
            _, oldest = self._kept.popitem(last=False)
            self._size -= _size(oldest)

    def take(self, task: int) -> Answers:
        answers = self._kept.pop(task, [])
        self._size -= _size(answers)
        return answers


def _size(answers: Answers) -> int:
    return sum(len(response.body) + 1_024 for _, response in answers)
