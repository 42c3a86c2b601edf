"""Rows of restored jobs, tasks and records, in the columns that both ledgers write. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from forager.core.errors import Conflict, Rejected
from forager.core.restored import RestoredJob, RestoredRecord, RestoredTask
from forager.core.task import Task
from forager.ledger.catalog import Catalog
from forager.ledger.schema.record_tables import RecordTable

COUNTERS = ("total", "queued", "completed", "failed", "skipped", "cancelled", "spent", "guessed", "records")
JOB_COLUMNS = (
    *("id", "public_id", "pipeline", "params", "estimate", "state", "reason", "drain", "schedule", "turn"),
    *("batch_size", "concurrency", "max_cost", "created_at", "started_at", "finished_at", *COUNTERS),
)
TASK_COLUMNS = (
    *("id", "job_id", "lane_id", "kind", "key", "state", "rank", "attempt", "claim", "claimed_at", "after", "followed"),
    *("price", "cost", "guessed", "hidden", "ended_at", "error", "reason", "error_type", "facts", "body"),
)
KEPT_COLUMNS = ("id", "job_id", "version", "first_seen_at", "last_seen_at", "times_seen")


def job_row(job: RestoredJob) -> tuple[Any, ...]:
    """Return the row of a job, in the order of `JOB_COLUMNS`."""
    counts = job.counts
    return (
        *(job.number, str(job.id), job.pipeline, _json(job.params), _json(job.estimate), job.state.value, job.reason),
        *(job.drain, job.schedule, job.turn, job.batch_size, job.concurrency, job.max_cost),
        *(job.created_at, job.started_at, job.finished_at, *(counts[name] for name in COUNTERS)),
    )


def lanes_of(catalog: Catalog, tasks: Iterable[RestoredTask]) -> dict[int, str]:
    """Map tasks to the names of their lanes. Raises `Rejected` for one that no pipeline can read."""
    lanes: dict[int, str] = {}
    for task in tasks:
        decoded = catalog.decode(task.kind, task.body)
        if not isinstance(decoded, Task):
            raise Rejected(f"The mirror has a task {task.key!r} that cannot be restored. {decoded.message}")
        lanes[task.number] = catalog.lane_of(decoded.lane())
    return lanes


def task_rows(job: RestoredJob, lanes: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Return the rows of a job's tasks, in the order of `TASK_COLUMNS`. `lanes`: the number of each task's lane."""
    followed = {task.after for task in job.tasks}
    return [
        (
            *(task.number, job.number, lanes[task.number], task.kind, task.key, int(task.state), task.rank),
            *(task.attempt, task.claim, task.claimed_at, task.after, task.number in followed),
            *(task.price, task.cost, task.guessed, task.hidden, task.ended_at, task.error, task.reason),
            *(task.error_type, _json(task.facts), task.body),
        )
        for task in job.tasks
    ]


def record_row(table: RecordTable, job: int, restored: RestoredRecord) -> tuple[Any, ...]:
    """Return the row of a record: `KEPT_COLUMNS`, then the fields of its table."""
    kept = (restored.number, job, restored.version, restored.first_seen_at, restored.last_seen_at, restored.times_seen)
    return (*kept, *table.values(restored.record))


def number_is_taken(job: RestoredJob) -> Conflict:
    return Conflict(
        f"The ledger has another job with the number {job.number} of job {job.id}. Restore into an empty ledger."
    )


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
