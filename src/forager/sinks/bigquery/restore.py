"""Reads jobs back from BigQuery, for `forager restore --from bigquery`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson

from forager.core.errors import NotFound
from forager.core.record import Record
from forager.core.states import JobState, TaskState
from forager.core.upkeep import LastNumbers, RestoredJob, RestoredRecord, RestoredTask, resolved
from forager.sdk.delivery import Mirror, MirrorTable
from forager.sinks.bigquery.ledger_rows import quoted
from forager.sinks.bigquery.warehouse import Warehouse

Row = Mapping[str, Any]
_SAME = (
    *("number", "params", "estimate", "reason", "drain", "schedule", "turn", "batch_size", "concurrency", "max_cost"),
    *("created_at", "started_at", "finished_at"),
)
"""Details of a job that have the names of `RestoredJob`."""


class BigQueryMirror:
    """The jobs of all mirrored pipelines in one dataset."""

    def __init__(
        self, warehouse: Warehouse, mirrors: Mapping[str, Mirror], records: Mapping[str, type[Record]]
    ) -> None:
        self._warehouse = warehouse
        self._mirrors = mirrors
        self._records = records
        self._where: dict[UUID, str] = {}
        """The pipeline of each job."""

    async def job_ids(self) -> Sequence[UUID]:
        """Return every job in the mirror, oldest first. Raises `NotFound` if the dataset has no table of jobs."""
        return await asyncio.to_thread(self._job_ids)

    async def last_numbers(self) -> LastNumbers:
        """Return the highest numbers of changes, claims, jobs and tasks in the mirror."""
        return await asyncio.to_thread(self._last_numbers)

    async def job(self, job: UUID) -> RestoredJob:
        """Return a job with its tasks and, if some of these are open, its records. Raises `Transient`."""
        return await asyncio.to_thread(self._job, job)

    def _job_ids(self) -> list[UUID]:
        for pipeline, mirror in self._mirrors.items():
            for table in (mirror.jobs, mirror.tasks, *mirror.records.values()):
                if not self._warehouse.has(table):
                    raise NotFound(
                        f"{self._warehouse.dataset} has no table {table.name}, so there is no mirror of {pipeline}. "
                        "Check FORAGER_BIGQUERY_PROJECT_ID and FORAGER_BIGQUERY_DATASET."
                    )
            rows = self._rows(mirror.jobs, "ORDER BY created_at, job_id", columns="job_id")
            self._where.update((UUID(row["job_id"]), pipeline) for row in rows)
        return list(self._where)

    def _last_numbers(self) -> LastNumbers:
        change = claim = job = task = 0
        for mirror in self._mirrors.values():
            tables = (mirror.jobs, mirror.tasks, *mirror.records.values())
            change = max(change, *(self._highest(table, "change_id") for table in tables))
            job = max(job, self._highest(mirror.jobs, _number("number")))
            task = max(task, self._highest(mirror.tasks, _number("id")))
            claim = max(claim, self._highest(mirror.tasks, _number("claim")))
        return LastNumbers(change, claim, job, task)

    def _highest(self, table: MirrorTable, what: str) -> int:
        (row,) = self._rows(table, columns=f"MAX({what}) AS highest")
        return int(row["highest"] or 0)

    def _job(self, job: UUID) -> RestoredJob:
        mirror = self._mirrors[self._where[job]]
        (row,) = self._rows(mirror.jobs, "WHERE job_id IN UNNEST(@jobs)", job)
        about = _json(row["details"])
        tasks = [_task(each) for each in self._rows(mirror.tasks, "WHERE job_id IN UNNEST(@jobs)", job)]
        same = {name: about[name] for name in _SAME}
        whole = RestoredJob(id=job, pipeline=self._where[job], state=JobState(about["state"]), tasks=tasks, **same)
        return self._with_records(whole, mirror)

    def _with_records(self, job: RestoredJob, mirror: Mirror) -> RestoredJob:
        records: list[RestoredRecord] = []
        found = 0
        is_open = not resolved(job).is_finished
        for kind, table in mirror.records.items():
            if is_open:
                rows = self._rows(table, "WHERE job_id IN UNNEST(@jobs)", job.id)
                records += [self._record(mirror, kind, row) for row in rows]
            else:
                (row,) = self._rows(table, "WHERE job_id IN UNNEST(@jobs)", job.id, columns="COUNT(*) AS found")
                found += int(row["found"])
        return replace(job, records=records, found=found + len(records))

    def _record(self, mirror: Mirror, kind: str, row: Row) -> RestoredRecord:
        about, record = _json(row["details"]), self._records[kind]
        types = {column.name: column.type for column in mirror.records[kind].columns}
        values = {name: row[name] if name in types else about.get(name) for name in record.model_fields}
        made = record(**{name: _json(each) if types.get(name) == "JSON" else each for name, each in values.items()})
        kept = {name: about[name] for name in ("first_seen_at", "last_seen_at", "version", "times_seen")}
        return RestoredRecord(number=about["id"], record=made, aliases=mirror.aliases(made), **kept)

    def _rows(
        self, table: MirrorTable, rest: str = "", job: UUID | None = None, *, columns: str = "*"
    ) -> Iterator[Row]:
        where = quoted(f"{self._warehouse.dataset}.{table.name}")
        values = {} if job is None else {"jobs": [str(job)]}
        return self._warehouse.query(f"SELECT {columns} FROM {where} {rest}", values)


def _task(row: Row) -> RestoredTask:
    about = _json(row["details"])
    state, hidden, body = TaskState(about.pop("state")), bool(about.pop("hidden")), about.pop("input").encode()
    return RestoredTask(number=about.pop("id"), state=state, hidden=hidden, body=body, **about)


def _number(name: str) -> str:
    return f"CAST(JSON_VALUE(details, '$.{name}') AS INT64)"


def _json(value: Any) -> Any:
    return orjson.loads(value) if isinstance(value, str | bytes) else value
