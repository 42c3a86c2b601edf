"""`Reports`: every question that a front door may ask of the ledger. The answers are in the files beside."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from forager.core.blobs import StoredFile
from forager.core.database import Database, Row
from forager.core.states import TaskState
from forager.kit.queries import MOST, Page, last_change
from forager.kit.reports import ChangeReport, JobReport, RejectedReport, TaskDetail, TaskReport
from forager.ledger.catalog import Catalog
from forager.ledger.reports import attempts, jobs, lanes, records, waiting
from forager.ledger.reports.jobs import ANY, Why, param_of_jobs
from forager.ledger.reports.models import (
    AttemptReport,
    DeadLetter,
    DeadLetterDetail,
    DeadReason,
    Health,
    LaneReport,
    QueuedTask,
    QueueLoad,
    RecordKind,
    SessionReport,
    Spending,
)
from forager.ledger.reports.rejected import list_rejected

PAGE = 100


class Reports:
    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._db = database
        self._catalog = catalog

    # ── jobs and tasks ──

    async def jobs(
        self,
        *,
        state: str | None = None,
        pipeline: str | None = None,
        prefix: str | None = None,
        hidden: Collection[str] = (),
        schedule: str | None = None,
        standing: Collection[str] = (),
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> Page[JobReport]:
        """Newest first. `prefix`: only jobs whose id begins so; `hidden`: pipelines that are left out; `schedule`: only
        jobs that it created; `standing`: idempotency keys of standing jobs that are left out, with those below them
        (`key/…`)."""
        asked = jobs.JobFilter(state, pipeline, prefix, tuple(hidden), schedule, tuple(standing))
        return await jobs.list_jobs(self._db, asked, cursor=cursor, limit=limit)

    async def job(self, job: UUID) -> JobReport:
        return await jobs.one_job(self._db, job)

    async def param_of_jobs(self, jobs: Sequence[UUID], name: str) -> dict[UUID, tuple[str, Any]]:
        """Map each existing job to (pipeline, value of this parameter or None).

        Standing jobs of Forager's own (deliveries, watches) are left out: they end and go on again and again.
        """
        return await param_of_jobs(self._db, jobs, name)

    async def jobs_for_log(self, numbers: Sequence[int]) -> Sequence[Row]:
        """Return the rows of jobs, by number, for the log; `standing`: whether it is a standing job of our own."""
        return await jobs.jobs_for_log(self._db, numbers)

    async def failures_of(self, number: int) -> Mapping[str, int]:
        """Count the failed tasks of a job by reason."""
        rows = await self._db.fetch(jobs.FAILURES, {"job": number})
        return {row["reason"] or "other": row["n"] for row in rows}

    async def last_moved(self, job: UUID) -> datetime | None:
        """The time of the newest change of a job, or None if it has none."""
        return await jobs.last_moved(self._db, job)

    async def tasks(
        self, job: UUID, *, state: str | None = None, why: Why = ANY, cursor: str | None = None, limit: int = PAGE
    ) -> Page[TaskReport]:
        return await jobs.list_tasks(self._db, job, state=state, why=why, cursor=cursor, limit=limit)

    async def queued_tasks(self, job: UUID) -> list[QueuedTask]:
        """Some queued tasks of a job, at most a few hundred."""
        return await waiting.queued_tasks(self._db, job)

    async def queued_by_lane(self, pipeline: str) -> list[tuple[str, TaskState, int]]:
        """How many tasks of a pipeline's open jobs are queued, by lane and state."""
        return await waiting.queued_by_lane(self._db, pipeline)

    async def task(self, task: UUID) -> TaskDetail:
        return await jobs.one_task(self._db, task)

    async def attempts(self, task: UUID, *, cursor: str | None = None, limit: int = PAGE) -> Page[AttemptReport]:
        return await attempts.list_attempts(self._db, task, cursor=cursor, limit=limit)

    async def dead(
        self,
        *,
        job: UUID | None = None,
        pipeline: str | None = None,
        why: Why = ANY,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> Page[DeadLetter]:
        return await jobs.list_dead(self._db, job=job, pipeline=pipeline, why=why, cursor=cursor, limit=limit)

    async def dead_reasons(
        self, *, job: UUID | None = None, pipeline: str | None = None, why: Why = ANY
    ) -> list[DeadReason]:
        return await jobs.dead_reasons(self._db, job=job, pipeline=pipeline, why=why)

    async def rejected(self, job: UUID, *, cursor: str | None = None, limit: int = PAGE) -> Page[RejectedReport]:
        """Rows that failed validation, in the order of their coming."""
        return await list_rejected(self._db, job, cursor=cursor, limit=limit)

    async def evidence_files(self, task: UUID) -> list[StoredFile]:
        return await jobs.evidence_files(self._db, task)

    async def screenshot(self, task: UUID) -> bytes:
        return await jobs.screenshot(self._db, task)

    async def dead_letter(self, task: UUID) -> DeadLetterDetail:
        return await jobs.one_dead(self._db, task)

    # ── records ──

    def record_kinds(self) -> list[RecordKind]:
        """Every kind of records, by name."""
        return [records.record_kind(table) for _, table in sorted(self._catalog.records.items())]

    def record_kind(self, kind: str) -> RecordKind:
        """One kind of records. Raises `Rejected`, which lists the kinds, if there is no such kind."""
        return records.record_kind(records.table_of(self._catalog, kind))

    @property
    def kinds(self) -> Collection[str]:
        """Of records."""
        return self._catalog.records.keys()

    async def history(self, kind: str, key: str, *, cursor: str | None = None, limit: int = PAGE) -> Page[ChangeReport]:
        return await records.history(self._db, self._catalog, kind, key, cursor=cursor, limit=limit)

    async def record(self, kind: str, key: str, *, job: UUID | None = None) -> dict[str, Any]:
        """One record by its key or an alias of it; a record of job scope also needs its job."""
        return await records.one_record(self._db, self._catalog, kind, key, job=job)

    async def export_page(
        self,
        kind: str,
        *,
        job: UUID | None = None,
        filters: Mapping[str, str] | None = None,
        as_of: datetime | None = None,
        cursor: str | None = None,
        limit: int = MOST,
    ) -> Page[dict[str, Any]]:
        """A page of records, as they are or as they were `as_of` a moment.

        Raises `Rejected` for a filter that the kind does not have, or if the versions of then were removed.
        """
        return await records.export_page(
            self._db, self._catalog, kind, job=job, filters=filters or {}, as_of=as_of, cursor=cursor, limit=limit
        )

    def export(
        self,
        kind: str,
        *,
        job: UUID | None = None,
        filters: Mapping[str, str] | None = None,
        as_of: datetime | None = None,
        limit: int = MOST,
    ) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        """All pages of `export_page`, one after the other."""
        return records.export(self._db, self._catalog, kind, job=job, filters=filters or {}, as_of=as_of, limit=limit)

    # ── the ledger as a whole ──

    async def lanes(self, *, cursor: str | None = None, limit: int = PAGE) -> Page[LaneReport]:
        return await lanes.list_lanes(self._db, cursor=cursor, limit=limit)

    async def lane(self, name: str) -> LaneReport | None:
        return await lanes.one_lane(self._db, name)

    async def spending(self, lane: str, *, days: int = 31) -> list[Spending]:
        return await lanes.spending(self._db, lane, days=days)

    async def sessions(self) -> list[SessionReport]:
        return await lanes.list_sessions(self._db)

    async def health(self) -> Health:
        return await lanes.health(self._db)

    async def waiting_by_queue(self, now: int) -> dict[str, QueueLoad]:
        """Return the lanes that have work and no owner, by queue."""
        return await lanes.waiting_by_queue(self._db, now)

    async def sessions_by_queue(self, now: int) -> dict[str, int]:
        """Return how many living sessions serve each queue; `all` are those that serve every queue."""
        return await lanes.sessions_by_queue(self._db, now)

    async def shifts_by_queue(self, now: int) -> dict[str, int]:
        """Return how many Celery shifts run for each queue."""
        return await lanes.shifts_by_queue(self._db, now)

    async def circuits(self, now: int) -> dict[str, str]:
        return await lanes.circuits(self._db, now)

    async def last_change(self) -> int:
        return await last_change(self._db)
