"""Sums the changes of job counters over a group of settlements in memory. Each ledger writes them once per job."""

from collections import defaultdict
from collections.abc import Collection, Iterable

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
    "rejected",
)
COUNTER_OF = {
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.SKIPPED: "skipped",
    TaskState.CANCELLED: "cancelled",
}


class Deltas:
    def __init__(self, *, note_ends: bool = False, tells: Collection[TaskState] = ()) -> None:
        self.ends: list[int] | None = [] if note_ends else None
        """The tasks that ended in this transaction, if anything follows from the end of a task."""
        self.told: dict[int, TaskState] = {}
        """Tasks that entered or left a state that some pipeline writes to the log, and this state."""
        self._tells = tells
        self._jobs: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, job: int, **amounts: int) -> None:
        counts = self._jobs[job]
        for name, amount in amounts.items():
            counts[name] += amount

    def note(self, tasks: Iterable[int], state: TaskState) -> None:
        """Note that these tasks have ended in this state."""
        if self.ends is not None or state in self._tells:
            ended = list(tasks)
            if self.ends is not None:
                self.ends.extend(ended)
            self.note_back(ended, state)

    def note_back(self, tasks: Iterable[int], was: TaskState) -> None:
        """Note that these tasks, which had ended in this state, are requeued."""
        if was in self._tells:
            self.told.update(dict.fromkeys(tasks, was))

    def ended(self, job: int, counter: str, price: int, cost: int, guessed: int, count: int = 1) -> None:
        """Count attempts that have ended, each with this price and cost."""
        counts = self._jobs[job]
        counts["running"] -= count
        counts[counter] += count
        if price or cost:
            counts["reserved"] -= price * count
            counts["spent"] += cost * count
            counts["guessed"] += guessed * count

    def of(self, job: int, name: str) -> int:
        counts = self._jobs.get(job)
        return counts.get(name, 0) if counts else 0

    def rows(self) -> list[tuple[int, ...]]:
        """One row per job: its amounts in the order of `COUNTED`, then the job."""
        return [(*[counts.get(name, 0) for name in COUNTED], job) for job, counts in self._jobs.items()]

    def columns(self, jobs: Iterable[int]) -> list[list[int]]:
        """Of these jobs, in the order of `COUNTED`."""
        counts = [self._jobs[job] for job in jobs]
        return [[each.get(name, 0) for each in counts] for name in COUNTED]

    def jobs(self) -> Iterable[int]:
        return self._jobs.keys()
