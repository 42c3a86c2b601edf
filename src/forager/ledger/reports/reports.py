"""`Reports`: every read query that the front doors may use. The queries are in the other files of this folder."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence, Set
from datetime import datetime
from typing import Any
from uuid import UUID

from forager.core.database import Database, Row
from forager.core.ids import task_uuid
from forager.core.states import QUEUED, TaskState
from forager.core.storage import StoredFile
from forager.ledger.catalog import Catalog
from forager.ledger.reports import jobs, lanes, records
from forager.ledger.reports.jobs import (
    ANY,
    AttemptReport,
    DeadLetter,
    DeadLetterDetail,
    DeadReason,
    QueuedTask,
    Why,
    param_of_jobs,
    require_task,
)
from forager.ledger.reports.lanes import Health, LaneReport, QueueLoad, SessionReport, Spending
from forager.ledger.reports.records import RecordKind, change_report
from forager.sdk.queries import MOST, QueryPage, Walk, at, job_number, last_change, loads, walk
from forager.sdk.reports import ChangeReport, JobFailure, JobReport, RejectedReport, TaskDetail, TaskReport

# The attempts of a task, as far as they are kept.


_COLUMNS = ", ".join(AttemptReport.model_fields)


async def list_attempts(db: Database, task: UUID, *, cursor: str | None, limit: int) -> QueryPage[AttemptReport]:
    """In the order in which they ended."""
    number = (await require_task(db, task))["id"]
    source, where = f"SELECT id, {_COLUMNS} FROM attempts", ("task_id = :task",)
    plan = Walk(f"attempts of {task}", source, ("id",), where, values={"task": number})
    rows, following = await walk(db, plan, cursor, limit)
    attempts = [AttemptReport(**{**row, "started_at": at(row["started_at"])}) for row in rows]
    return QueryPage(items=attempts, next_cursor=following)


# Rows of a job that failed validation, in the order of their coming.


async def list_rejected(db: Database, job: UUID, *, cursor: str | None, limit: int) -> QueryPage[RejectedReport]:
    plan = Walk(
        f"rejected rows of {job}",
        "SELECT id, job_id, task_id, kind, key, reason, payload, at FROM rejected",
        ("id",),
        ("job_id = :job",),
        values={"job": await job_number(db, job)},
    )
    rows, following = await walk(db, plan, cursor, limit)
    items = [
        RejectedReport(
            id=row["id"],
            task=task_uuid(row["job_id"], row["task_id"]),
            kind=row["kind"],
            key=row["key"],
            reason=row["reason"],
            payload=loads(row["payload"]),
            at=at(row["at"]),
        )
        for row in rows
    ]
    return QueryPage(items=items, next_cursor=following)


# The rows from which the reasons for waiting of a job's open tasks are made. Bounded, whatever the job's size.


LOOKED_AT = 200
"""Tasks at each end of a job that are read. A job of one lane, however long, is described by any of its tasks."""
_OPEN = ", ".join(str(int(state)) for state in QUEUED)


async def queued_tasks(db: Database, job: UUID) -> list[QueuedTask]:
    """Return some queued tasks of a job, the first and last of it by name. Empty if none of those is queued."""
    number = await job_number(db, job)
    for order in ("kind, key", "kind DESC, key DESC"):
        rows = await db.fetch(
            f"SELECT t.state, t.due, t.offered, t.error, t.reason, l.name AS lane"
            f" FROM (SELECT id FROM tasks WHERE job_id = :job ORDER BY {order} LIMIT {LOOKED_AT}) w"
            f" JOIN tasks_now t ON t.id = w.id JOIN lanes l ON l.id = t.lane_id WHERE t.state IN ({_OPEN})",
            {"job": number},
        )
        if rows:
            return [_queued(row) for row in rows]
    return []


async def queued_by_lane(db: Database, pipeline: str) -> list[tuple[str, TaskState, int]]:
    """Count the queued tasks of a pipeline's open jobs by lane and state. Reads each of them: for short queues only."""
    rows = await db.fetch(
        f"SELECT l.name AS lane, t.state, count(*) AS tasks FROM jobs j JOIN tasks_now t ON t.job_id = j.id"
        f" JOIN lanes l ON l.id = t.lane_id WHERE j.finished_at IS NULL AND j.pipeline = :pipeline"
        f" AND t.state IN ({_OPEN}) GROUP BY l.name, t.state",
        {"pipeline": pipeline},
    )
    return [(row["lane"], TaskState(row["state"]), int(row["tasks"])) for row in rows]


def _queued(row: Row) -> QueuedTask:
    known = {name: row[name] for name in ("lane", "error", "reason")}
    return QueuedTask(state=TaskState(row["state"]), due_at=at(row["due"]), is_offered=bool(row["offered"]), **known)


PAGE = 100
LATEST = 5_000
"""The newest changes that are looked through for news."""
AT_ONCE = 50
"""Versions that one query looks up."""


class LedgerReports:
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
    ) -> QueryPage[JobReport]:
        """Newest first. `prefix`: only jobs whose id begins so; `hidden`: pipelines that are left out; `schedule`: only
        jobs that it created; `standing`: idempotency keys of standing jobs that are left out, with those below them
        (`key/…`)."""
        asked = jobs.JobFilter(state, pipeline, prefix, tuple(hidden), schedule, tuple(standing))
        return await jobs.list_jobs(self._db, asked, cursor=cursor, limit=limit)

    async def job(self, job: UUID) -> JobReport:
        return await jobs.one_job(self._db, job)

    async def param_of_jobs(self, jobs: Sequence[UUID], name: str) -> dict[UUID, tuple[str, Any]]:
        """Map each existing job to (pipeline, value of this parameter or None).

        Standing jobs of Forager's own (deliveries, rechecks) are left out: they end and go on again and again.
        """
        return await param_of_jobs(self._db, jobs, name)

    async def jobs_for_log(self, numbers: Sequence[int]) -> Sequence[Row]:
        """Return the rows of jobs, by number, for the log; `standing`: whether it is a standing job of our own."""
        return await jobs.jobs_for_log(self._db, numbers)

    async def failures_of(self, number: int) -> Mapping[str, int]:
        """Count the failed tasks of a job by reason."""
        rows = await self._db.fetch(jobs.FAILURES, {"job": number})
        return {row["reason"] or "other": row["n"] for row in rows}

    async def job_failures(self, job: UUID) -> list[JobFailure]:
        """Return why tasks of a job have failed, the most frequent reason first. Reads all tasks of the job."""
        return await jobs.job_failures(self._db, job)

    async def last_moved(self, job: UUID) -> datetime | None:
        """Return the time of the newest change of a job, or None if it has none."""
        return await jobs.last_moved(self._db, job)

    async def tasks(
        self,
        job: UUID,
        *,
        state: str | None = None,
        why: Why = ANY,
        text: str | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> QueryPage[TaskReport]:
        return await jobs.list_tasks(self._db, job, state=state, why=why, text=text, cursor=cursor, limit=limit)

    async def queued_tasks(self, job: UUID) -> list[QueuedTask]:
        """Return some queued tasks of a job, at most a few hundred."""
        return await queued_tasks(self._db, job)

    async def queued_by_lane(self, pipeline: str) -> list[tuple[str, TaskState, int]]:
        """Count the queued tasks of a pipeline's open jobs by lane and state."""
        return await queued_by_lane(self._db, pipeline)

    async def task(self, task: UUID) -> TaskDetail:
        return await jobs.one_task(self._db, task)

    async def attempts(self, task: UUID, *, cursor: str | None = None, limit: int = PAGE) -> QueryPage[AttemptReport]:
        return await list_attempts(self._db, task, cursor=cursor, limit=limit)

    async def dead(
        self,
        *,
        job: UUID | None = None,
        pipeline: str | None = None,
        why: Why = ANY,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> QueryPage[DeadLetter]:
        return await jobs.list_dead(self._db, job=job, pipeline=pipeline, why=why, cursor=cursor, limit=limit)

    async def dead_reasons(
        self, *, job: UUID | None = None, pipeline: str | None = None, why: Why = ANY
    ) -> list[DeadReason]:
        return await jobs.dead_reasons(self._db, job=job, pipeline=pipeline, why=why)

    async def rejected(self, job: UUID, *, cursor: str | None = None, limit: int = PAGE) -> QueryPage[RejectedReport]:
        """Return rows that failed validation, in the order of their coming."""
        return await list_rejected(self._db, job, cursor=cursor, limit=limit)

    async def evidence_files(self, task: UUID) -> list[StoredFile]:
        return await jobs.evidence_files(self._db, task)

    async def screenshot(self, task: UUID) -> bytes:
        return await jobs.screenshot(self._db, task)

    async def dead_letter(self, task: UUID) -> DeadLetterDetail:
        return await jobs.one_dead(self._db, task)

    # ── records ──

    def record_kinds(self) -> list[RecordKind]:
        """Return every kind of records, by name."""
        return [records.record_kind(table) for _, table in sorted(self._catalog.records.items())]

    def record_kind(self, kind: str) -> RecordKind:
        """Return one kind of records. Raises `Rejected`, which lists the kinds, if there is no such kind."""
        return records.record_kind(records.table_of(self._catalog, kind))

    @property
    def kinds(self) -> Set[str]:
        """Return the kinds of records."""
        return self._catalog.records.keys()

    async def history(
        self, kind: str, key: str, *, cursor: str | None = None, limit: int = PAGE
    ) -> QueryPage[ChangeReport]:
        return await records.history(self._db, self._catalog, kind, key, cursor=cursor, limit=limit)

    async def record(self, kind: str, key: str, *, job: UUID | None = None) -> dict[str, Any]:
        """Return one record by its key or an alias of it; a record of job scope also needs its job."""
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
        newest: bool = False,
    ) -> QueryPage[dict[str, Any]]:
        """Return a page of records, as they are or as they were `as_of` a moment; with `newest`, in reverse order.

        Raises `Rejected` for a filter that the kind does not have, or if the versions of then were removed.
        """
        return await records.export_page(
            self._db,
            self._catalog,
            kind,
            job=job,
            filters=filters or {},
            as_of=as_of,
            cursor=cursor,
            limit=limit,
            newest=newest,
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
        """Yield all pages of `export_page`, one after the other."""
        return records.export(self._db, self._catalog, kind, job=job, filters=filters or {}, as_of=as_of, limit=limit)

    # ── the ledger as a whole ──

    async def lanes(self, *, cursor: str | None = None, limit: int = PAGE) -> QueryPage[LaneReport]:
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

    async def last_change_before(self, moment: int) -> int:
        """Return the number of the last change before a moment (milliseconds), or 0. Numbers grow with time, so a few
        look-ups by number find it."""
        low, high = 0, await last_change(self._db)
        while low < high:
            middle = (low + high + 1) // 2
            look = "SELECT id, at FROM changes WHERE id <= :id ORDER BY id DESC LIMIT 1"
            rows = await self._db.fetch(look, {"id": middle})
            if rows and rows[0]["at"] >= moment:
                high = rows[0]["id"] - 1
            else:
                low = middle
        return low

    async def latest_changes(self, *, kinds: Collection[str] = (), limit: int = PAGE) -> list[ChangeReport]:
        """Return the newest changes of records, newest first; of these kinds, or of all. Only the newest few thousand
        changes are looked through."""
        wanted = sorted(self.kinds & set(kinds) if kinds else self.kinds)
        if not wanted:
            return []
        named = {f"kind{number}": kind for number, kind in enumerate(wanted)}
        rows = await self._db.fetch(
            "SELECT w.*, NULL AS public_id FROM (SELECT id, kind, key, op, version, job_id, at, body FROM changes"
            f" WHERE id > :after AND body IS NOT NULL AND kind IN ({', '.join(f':{name}' for name in named)})"
            " ORDER BY id DESC LIMIT :limit) w",
            {"after": await last_change(self._db) - LATEST, "limit": limit, **named},
        )
        return [change_report(row) for row in rows]

    async def bodies_before(self, changes: Sequence[ChangeReport]) -> dict[tuple[str, str, int], dict[str, Any]]:
        """Return the bodies of the versions before these changes, by the change's kind, key and version. A version
        that was removed is left out."""
        found: dict[tuple[str, str, int], dict[str, Any]] = {}
        for start in range(0, len(changes), AT_ONCE):
            part = changes[start : start + AT_ONCE]
            terms = [f"(key = :key{n} AND version = :version{n} AND kind = :kind{n})" for n in range(len(part))]
            values: dict[str, Any] = {}
            for n, change in enumerate(part):
                values |= {f"key{n}": change.key, f"version{n}": change.version - 1, f"kind{n}": change.kind}
            sql = f"SELECT kind, key, version, body FROM changes WHERE body IS NOT NULL AND ({' OR '.join(terms)})"
            for row in await self._db.fetch(sql, values):
                found[row["kind"], row["key"], row["version"] + 1] = loads(row["body"])
        return found

    async def last_change_by_kind(self) -> dict[str, datetime]:
        """Return the time of the newest change of each kind, among the newest few thousand changes."""
        rows = await self._db.fetch(
            "SELECT kind, max(at) AS at FROM changes WHERE id > :after GROUP BY kind",
            {"after": await last_change(self._db) - LATEST},
        )
        return {row["kind"]: moment for row in rows if (moment := at(row["at"])) is not None}
