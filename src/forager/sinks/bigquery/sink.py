"""The BigQuery sink: keeps tables in the present state of records, jobs and tasks.

For each batch it reads the rows that the changes name, as they are now, and merges them, table by table. Each row
carries a change number and never replaces a row with a greater one, so that a replay, a lost answer or a slow second
writer cannot put old over new.

Tables are merged in an order that a restore can rely on: records first, then the tasks that found them, then jobs. So a
task that the mirror calls finished has all of its records there.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import IO, Any

import orjson
import structlog

from forager.core.change import Change
from forager.core.errors import Permanent
from forager.core.faults import Faults, NoFaults
from forager.core.sink import Batching, SinkRow
from forager.core.states import ENDS, PUBLIC_STATE, TaskState
from forager.kit.mirror import MirrorTable
from forager.sinks.bigquery.asked import Asked, Item, asked
from forager.sinks.bigquery.ledger_rows import LedgerRows
from forager.sinks.bigquery.statements import REMOVED
from forager.sinks.bigquery.values import line_of
from forager.sinks.bigquery.warehouse import Warehouse

log = structlog.get_logger("forager.sinks")

MOST = 5_000
IN_MEMORY = 8 * 1024 * 1024
JOBS_REMEMBERED = 10_000
_ENDED = {PUBLIC_STATE[state] for state in ENDS}


class Staged:
    """Rows on their way to one table, in memory or, if there are many, in a temporary file."""

    def __init__(self, table: MirrorTable) -> None:
        self.table = table
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed after the merge
            IN_MEMORY,
            mode="r+b",  # the only mode for writing that the client accepts
        )
        self.jobs: set[str] = set()
        self.is_empty = True

    def add(self, row: Mapping[str, Any], change: int) -> None:
        """Add a row. Raises `Permanent` for a value that its column cannot hold."""
        self._write(row, change, removed=False)

    def remove(self, key: Mapping[str, Any], change: int) -> None:
        """Delete the row with this key."""
        empty = dict.fromkeys(column.name for column in self.table.columns)
        self._write({**empty, **key}, change, removed=True)

    def _write(self, row: Mapping[str, Any], change: int, *, removed: bool) -> None:
        self.file.write(line_of(self.table, {**row, "change_id": change}, **{REMOVED: removed}))
        self.is_empty = False
        if self.table.key[0] == "job_id":
            self.jobs.add(str(row["job_id"]))


class BigQuerySink:
    """The sink of one row of the type `bigquery`."""

    def __init__(
        self,
        row: SinkRow,
        warehouse: Warehouse,
        rows: LedgerRows,
        *,
        age: float = 10.0,
        faults: Faults | None = None,
    ) -> None:
        """`age`: seconds for which changes wait for one another, because every batch costs a load and a statement per
        table."""
        self.name, self.pipelines = row.name, row.pipelines
        self.kinds = row.kinds
        self.batching = Batching(most=MOST, age=age)
        self._warehouse = warehouse
        self._rows = rows
        self._mirrored = frozenset({"job", "task", *rows.tables}) if row.kinds is None else row.kinds
        self._faults = faults or NoFaults()
        self._known: dict[str, None] = {}
        """Jobs that the warehouse has, as far as this process has looked."""
        self._began = False

    async def write(self, batch: Sequence[Change]) -> bool:
        """Merge the present state of everything that the batch names. Returns False if it names nothing that is
        mirrored. Raises `Transient` or `Permanent`."""
        wanted = asked(batch, self._rows.mirrors, self._mirrored)
        if wanted.is_empty:
            return False
        await asyncio.to_thread(self._prepare, wanted)
        last = max(batch[-1].id, await self._rows.last_change())
        await self._bring_whole_jobs(wanted, last)
        await self._merge(wanted, last)
        for jobs in wanted.jobs.values():
            self._remember(jobs)
        self._began = True
        return True

    def _prepare(self, wanted: Asked) -> None:
        """Create the tables of the pipelines that a batch names, also those that stay empty for now."""
        for pipeline in wanted.jobs:
            mirror = self._rows.mirrors[pipeline]
            tables = {"job": mirror.jobs, "task": mirror.tasks, **mirror.records}
            for kind in sorted(tables.keys() & self._mirrored):
                self._warehouse.prepare(tables[kind])

    async def _merge(self, wanted: Asked, last: int) -> None:
        staged = [each async for each in self._staged(wanted, last)]
        try:
            for each in staged:
                if not each.is_empty:
                    await asyncio.to_thread(self._warehouse.merge, each.table, each.file, each.jobs)
                    self._faults.at("bigquery-merged")
        finally:
            for each in staged:
                each.file.close()

    async def _bring_whole_jobs(self, wanted: Asked, last: int) -> None:
        """Load jobs whole before the batch: those that it says so of, and those that the warehouse does not have, since
        the sink is new or began in the middle of the log. The first batch also brings all unfinished jobs.

        They come in groups of bounded size, and those that were brought are remembered: a ledger with millions of open
        tasks is loaded over as many attempts as it takes.
        """
        for pipeline, mirror in self._rows.mirrors.items():
            if "job" not in self._mirrored or (self.pipelines is not None and pipeline not in self.pipelines):
                continue
            named = set(wanted.jobs.get(pipeline, ()))
            new = (named if self._began else named.union(await self._rows.unfinished(pipeline))) - self._known.keys()
            missing = new - await asyncio.to_thread(self._warehouse.known_jobs, mirror.jobs, new) if new else set()
            for group in await self._rows.groups(missing | wanted.whole.pop(pipeline, set())):
                try:
                    await self._merge(Asked(jobs={pipeline: dict.fromkeys(group, last)}, whole={pipeline: group}), last)
                except Permanent as error:
                    if group & named:
                        raise
                    log.error("jobs are left out of BigQuery", jobs=sorted(group)[:10], error=error.message)
                self._remember(dict.fromkeys(group, last))

    async def _staged(self, wanted: Asked, last: int) -> AsyncIterator[Staged]:
        """Yield what is to be merged, in its order. Tasks are read before records, and jobs last: everything that a
        task found is then there, and totals are not older than the tasks."""
        jobs = {job for of in (wanted.jobs, wanted.whole) for each in of.values() for job in each}
        jobs |= {job for each in wanted.records.values() for job in each if job is not None}
        numbers = await self._rows.numbers(jobs)
        tasks = [await self._tasks(pipeline, wanted, numbers, last) for pipeline in self._rows.mirrors]
        for kind in sorted({*wanted.records, *self._whole_kinds(wanted)}):
            yield await self._records(kind, wanted, numbers, last)
        for each in tasks:
            yield each
        for pipeline in self._rows.mirrors:
            yield await self._jobs(pipeline, wanted, last)

    def _whole_kinds(self, wanted: Asked) -> set[str]:
        """Return the kinds of records that come with whole jobs."""
        return {
            kind
            for pipeline, jobs in wanted.whole.items()
            if jobs
            for kind in self._rows.mirrors[pipeline].records
            if kind in self._mirrored
        }

    async def _tasks(self, pipeline: str, wanted: Asked, numbers: Mapping[str, int], last: int) -> Staged:
        table = self._rows.mirrors[pipeline].tasks
        staged = Staged(table)
        if "task" not in self._mirrored:
            return staged
        whole = wanted.whole.get(pipeline, set())
        for job in sorted(whole & numbers.keys()):
            async for row in self._rows.whole(table, numbers[job]):
                staged.add(row, last)
        for job, items in wanted.tasks.get(pipeline, {}).items():
            if job in numbers and job not in whole:
                async for row in self._rows.items(table, numbers[job], items):
                    item = items[row["item"]]
                    if not _is_ahead(row, item):
                        staged.add(row, item.change)
        return staged

    async def _records(self, kind: str, wanted: Asked, numbers: Mapping[str, int], last: int) -> Staged:
        table, declared = self._rows.tables[kind], kind in self._rows.declared
        staged, key = Staged(table), table.key[-1]
        whole = {
            job
            for pipeline, jobs in wanted.whole.items()
            if kind in self._rows.mirrors[pipeline].records
            for job in jobs & numbers.keys()
        }
        for job in sorted(whole):
            async for row in self._rows.whole(table, numbers[job]):
                staged.add(row, last)
        for of_job, items in wanted.records.get(kind, {}).items():
            if of_job in whole or (of_job is not None and of_job not in numbers):
                continue
            missing = dict(items)
            pair = None if of_job is None else (of_job, numbers[of_job])
            rows = (
                self._rows.items(table, pair[1], items)
                if declared and pair is not None
                else self._rows.plain(kind, pair, items)
            )
            async for row in rows:
                staged.add(row, missing.pop(row[key]).change)
            for name, item in (await self._renamed(kind, missing)).items():
                staged.remove({key: name, **({"job_id": of_job} if of_job else {})}, item.change)
        return staged

    async def _renamed(self, kind: str, missing: Mapping[str, Item]) -> dict[str, Item]:
        """Return those of the missing records that were renamed: their rows are stored under a stronger key now.

        A record that was gone and then archived is missing, too, but the warehouse keeps its row. The archive has its
        last version; a later one is the rename of a record that had come back.
        """
        gone = {name: item for name, item in missing.items() if item.op == "gone"}
        archived = await self._rows.archived(kind, gone)
        return {name: item for name, item in gone.items() if item.version > archived.get(name, 0)}

    async def _jobs(self, pipeline: str, wanted: Asked, last: int) -> Staged:
        staged, whole = Staged(self._rows.mirrors[pipeline].jobs), wanted.whole.get(pipeline, set())
        jobs = wanted.jobs.get(pipeline, {}) if "job" in self._mirrored else {}
        async for row in self._rows.jobs(staged.table, jobs):
            staged.add(row, last if row["job_id"] in whole else jobs[row["job_id"]])
        return staged

    def _remember(self, jobs: Mapping[str, int]) -> None:
        self._known.update(dict.fromkeys(jobs))
        while len(self._known) > JOBS_REMEMBERED:
            del self._known[next(iter(self._known))]


def _is_ahead(row: Mapping[str, Any], item: Item) -> bool:
    """Return whether a task has ended in another way since this change. Its row is left to the change of that end,
    which comes after the records that the task found."""
    details = row["details"]
    state = TaskState(orjson.loads(details)["state"] if isinstance(details, str) else details["state"]).public()
    return state in _ENDED and state != item.op
