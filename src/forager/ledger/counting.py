"""What a group of settlements changes in its jobs' counters, summed in memory. Each ledger writes it once per job."""

from collections import defaultdict
from collections.abc import Iterable

from forager.core.states import TaskState

COUNTED = (
    "total",
    "queued",
    "running",
    "completed",
    "failed",
    "skipped",
    "cancelled",
    "retries",
    "spent",
    "guessed",
    "reserved",
    "records",
    "discoveries",
)
COUNTER_OF = {
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.SKIPPED: "skipped",
    TaskState.CANCELLED: "cancelled",
}


class Deltas:
    def __init__(self) -> None:
        self._jobs: defaultdict[int, dict[str, int]] = defaultdict(dict)

    def add(self, job: int, **amounts: int) -> None:
        counts = self._jobs[job]
        for name, amount in amounts.items():
            counts[name] = counts.get(name, 0) + amount

    def of(self, job: int, name: str) -> int:
        counts = self._jobs.get(job)
        return counts.get(name, 0) if counts else 0

    def jobs(self) -> Iterable[int]:
        return self._jobs.keys()
