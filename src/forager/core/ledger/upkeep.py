"""The upkeep of the ledger: sweeps, retention, the archive, restored jobs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from forager.core.upkeep import Keep, LastNumbers, OldRecord, Pruned, RestoredJob


@dataclass(frozen=True, slots=True)
class Swept:
    """Counts of what a sweep repaired."""

    rescued: int = 0
    sessions_ended: int = 0
    drained: int = 0
    unfinished_jobs_removed: int = 0
    woken: int = 0
    evidence_removed: int = 0
    more: bool = False
    """It stopped at its page size: sweep again soon."""
    aged: int = 0
    """Jobs that have waited long enough to be in the first turn."""
    robots_removed: int = 0


class LedgerUpkeep(Protocol):
    """Repairs what dead sessions held, removes old data, and restores jobs."""

    async def restore(self, job: RestoredJob, last: LastNumbers) -> bool:
        """Write a job back as a mirror shows it, with its own numbers, its tasks in their states and its records; plan
        nothing. What was in flight is queued. Returns False, and changes nothing, if the ledger has the job.

        Numbers of changes, claims, jobs and tasks continue after `last`. Raises `Conflict` if the job's number is
        another job's, and `Rejected` for a task that no pipeline can read.
        """
        ...

    async def sweep(self) -> Swept:
        """Rescue what dead sessions held, drain cancelled jobs, age waiting ones, drop old evidence, page by page."""
        ...

    async def prune(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """Remove one page of old data, in one transaction. Call it again while `more` is set.

        `sinks` are the configured ones: changes that one of them has not passed are kept.
        """
        ...

    async def undelivered_since(self, sinks: Collection[str]) -> int:
        """Return the time of the oldest change that a sink has not passed, in Unix milliseconds; without one, the
        present time.

        `sinks` are the configured ones, as for `prune`.
        """
        ...

    async def archive(self, file: int, kind: str, records: Sequence[OldRecord]) -> bool:
        """Remove records that are in a file of the archive, keep their keys, and let the file count, in one
        transaction. Returns False, and does nothing, if one of them is not as it was read or the file was forgotten."""
        ...

    async def prunable(self, keep: Keep, sinks: Collection[str]) -> Pruned:
        """Count what repeated calls of `prune` would remove. Removes nothing."""
        ...
