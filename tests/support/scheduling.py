"""The order in which test processes get their files: those that wait run beside those that compute.

Tests with real processes wait for most of their time, and unit tests compute for all of it. If every test process first
took files of one kind and then of the other, the processors would be idle for the first half of a run and overloaded
for the second.
"""

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

WAITING = ("tests/acceptance/", "tests/contract/runners/", "_kills.py", "tests/contract/sinks/")
"""Parts of the names of files that mostly wait: their tests start processes."""


class MixedScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Every second test process prefers files that wait, the others prefer the rest. None is idle while any is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        prefers_waiting = self.nodes.index(node) % 2 == 0
        preferred = (file for file in self.workqueue if _waits(file) == prefers_waiting)
        if (file := next(preferred, None)) is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def _waits(file: str) -> bool:
    return any(part in file for part in WAITING)
