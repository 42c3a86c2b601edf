"""Hooks of a pipeline that run where a task or a job ends. Pure; each ledger reads what ended and writes what follows.

A hook is a pipeline's code inside a transaction of the ledger. If it raises, the end of its task or job stands without
what it would have added, and the log says so: a defect of one pipeline must not stop cancelling, rescuing or settling.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import structlog

from forager.core.ends import Aftermath, JobEnd, TaskEnd
from forager.core.errors import Rejected, Undecodable
from forager.core.states import JobState, TaskState
from forager.core.table import Effect
from forager.kit.queries import loads
from forager.ledger.catalog import Catalog

log = structlog.get_logger("forager.ledger")

ENDED_TASK = "id, job_id, kind, key, body, state, reason, error, attempt"
ENDED_JOB = (
    "id, public_id, pipeline, params, state, completed, failed, skipped, cancelled, records, discoveries, rejected,"
    " spent"
)


class EndedTask(NamedTuple):
    """A row of `tasks`, with the columns of `ENDED_TASK`."""

    id: int
    job_id: int
    kind: str
    key: str
    body: bytes
    state: int
    reason: str | None
    error: str | None
    attempt: int


class EndedJob(NamedTuple):
    """A row of `jobs`, with the columns of `ENDED_JOB`."""

    id: int
    public_id: str
    pipeline: str
    params: Any
    state: str
    completed: int
    failed: int
    skipped: int
    cancelled: int
    records: int
    discoveries: int
    rejected: int
    spent: int


def after_tasks(catalog: Catalog, ended: Iterable[EndedTask], now: int) -> list[tuple[int, Aftermath]]:
    """(job, what else becomes true) for each of these tasks whose step has an `on_end`."""
    results: list[tuple[int, Aftermath]] = []
    at = datetime.fromtimestamp(now / 1000, UTC)
    for row in ended:
        try:
            task = catalog.decode(row.kind, bytes(row.body))
            if isinstance(task, Undecodable):
                raise task
            end = TaskEnd(TaskState(row.state), row.reason, row.error, row.attempt, at)
            aftermath = catalog.on_end[row.kind](task, end)
            if aftermath is not None:
                results.append((row.job_id, aftermath))
        except Exception:
            log.exception("a hook failed", hook="on_end", kind=row.kind, key=row.key, task=row.id)
    return results


def after_jobs(catalog: Catalog, ended: Iterable[EndedJob], now: int) -> list[Effect]:
    """The effects of these jobs' ends."""
    effects: list[Effect] = []
    at = datetime.fromtimestamp(now / 1000, UTC)
    for row in ended:
        pipeline = catalog.pipelines[row.pipeline]
        try:
            params = pipeline.params.model_validate(loads(row.params))
            end = JobEnd(UUID(str(row.public_id)), JobState(row.state), *row[5:], at=at)
            if pipeline.on_job_end is not None:
                effects.extend(pipeline.on_job_end(params, end))
        except Exception:
            log.exception("a hook failed", hook="on_job_end", pipeline=row.pipeline, job=row.public_id)
    return effects


def log_refused(effect: Effect, error: Exception) -> None:
    log.error("an effect of a hook was refused", table=effect.row.table, key=dict(effect.key), error=str(error))


def refuse_foreign(catalog: Catalog, effects: Iterable[Effect]) -> None:
    """Raises `Rejected` for an effect on a table that no pipeline declares."""
    for effect in effects:
        if effect.row not in catalog.tables:
            raise Rejected(f"No pipeline declares the table of {effect.row.__name__}: name it in `Pipeline.tables`.")
