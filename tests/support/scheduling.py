"""The order in which test processes get their files: those that wait run beside those that compute.

Tests with real processes wait for most of their time, and unit tests compute for all of it. If every test process first
took files of one kind and then of the other, the processors would be idle for the first half of a run and overloaded
for the second.
"""

import re

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

WAITING = ("tests/acceptance/", "tests/contract/runners/", "_kills.py", "tests/contract/sinks/")
"""Parts of the names of files that mostly wait: their tests start processes."""
LONG = ("tests/unit/test_extract_hostile.py",)
"""Files that would keep one process busy at the end, when the others have none left: they go first."""
_RUNNERS = "tests/contract/runners/"
_BROKER = re.compile(r"\[(embedded|redis|rabbitmq|kafka)\b")


class MixedScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Every second test process prefers files that wait, the others prefer the rest. None is idle while any is left.

    A file of the runners' contract is divided by broker. Its brokers, databases and workers are made for each of them
    anyway, and in one piece it would be the longest file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        broker = _BROKER.search(nodeid) if file.startswith(_RUNNERS) else None
        return f"{file}[{broker[1]}]" if broker else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        prefers_waiting = self.nodes.index(node) % 2 == 0
        preferred = [file for file in self.workqueue if _waits(file) == prefers_waiting]
        if (file := min(preferred, key=lambda each: each not in LONG, default=None)) is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def _waits(file: str) -> bool:
    return any(part in file for part in WAITING)
