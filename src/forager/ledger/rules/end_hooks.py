"""Hooks of a pipeline that run when a task or a job ends. Pure: each ledger reads the ended rows and writes the
results.

A hook is a pipeline's code inside a transaction of the ledger. If it raises, the error is logged and the task or job
ends without the hook's effects: a defect of one pipeline must not stop cancelling, rescuing or settling.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import structlog

from forager.core.errors import Rejected, Undecodable
from forager.core.ledger import Settlement
from forager.core.pipeline import Aftermath, JobEnd, TaskEnd
from forager.core.states import JobState, TaskState
from forager.core.table import Effect
from forager.ledger.catalog import Catalog
from forager.ledger.rules.records import clean_or_none
from forager.sdk.queries import loads

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
    """Run `on_end` of these tasks' steps. Returns (job, result) for each task whose step has one."""
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
            log.exception("hook_failed", hook="on_end", kind=row.kind, key=row.key, task=row.id)
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
            log.exception("hook_failed", hook="on_job_end", pipeline=row.pipeline, job=row.public_id)
    return effects


def log_refused(effect: Effect, error: Exception) -> None:
    log.error("hook_effect_refused", table=effect.row.table, key=dict(effect.key), error=str(error))


def refuse_foreign(catalog: Catalog, effects: Iterable[Effect]) -> None:
    """Raises `Rejected` for an effect on a table that no pipeline declares."""
    for effect in effects:
        if effect.row not in catalog.tables:
            raise Rejected(f"No pipeline declares the table of {effect.row.__name__}: name it in `Pipeline.tables`.")


# The rules of the log of attempts that both ledgers share: which attempts are kept, and with which columns. Pure.


LOST = "lost"
GIVEN_BACK = "given_back"
DIED = "Its worker died while it ran."
_ENDS = {TaskState.COMPLETED: "completed", TaskState.FAILED: "failed", TaskState.SKIPPED: "skipped"}


class AttemptRow(NamedTuple):
    """In the order of `COLUMNS`."""

    task_id: int
    attempt: int
    started_at: int
    duration_ms: int
    status: str
    reason: str | None
    error_type: str | None
    message: str | None
    traceback: str | None


COLUMNS = ", ".join(AttemptRow._fields)


def attempt_rows(live: Iterable[Settlement]) -> list[AttemptRow]:
    """Return the rows for settlements that passed the fence, once it is known which of them have failed."""
    return [row for s in live if s.tried is not None and (row := _row(s)) is not None]


def _row(s: Settlement) -> AttemptRow | None:
    tried, status = s.tried, _status(s)
    if tried is None or not (tried.always or status == "failed"):
        return None
    lease = s.lease
    why = (s.reason, s.error_type, clean_or_none(s.error), clean_or_none(tried.trace))
    return AttemptRow(lease.task_id, lease.attempt, tried.started_at, tried.duration_ms, status, *why)


def _status(s: Settlement) -> str:
    """Return how the attempt itself ended: one that is retried has failed as well."""
    if s.state in _ENDS:
        return _ENDS[s.state]
    if s.burned:
        return "failed"
    return "snoozed" if s.state is TaskState.WAITING else GIVEN_BACK
