"""The BigQuery sink: keeps tables in the present state of records, jobs and tasks.

For each batch it reads the rows that the changes name, as they are now, and merges them, table by table. Each row
carries a change number and never replaces a row with a greater one, so that a replay, a lost answer or a slow second
writer cannot put old over new.

Tables are merged in an order that a restore can rely on: records first, then the tasks that found them, then jobs. So a
task that the mirror calls finished has all of its records there.
"""

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple

import orjson
import structlog

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import Permanent
from forager.core.sink import Batching, SinkRow
from forager.core.states import ENDS, PUBLIC_STATE, TaskState
from forager.sdk.delivery import ColumnType, Mirror, MirrorColumn, MirrorTable
from forager.sinks.bigquery.ledger_rows import REMOVED, LedgerRows
from forager.sinks.bigquery.warehouse import Warehouse

# Sorts a batch of changes by what must be read for it: jobs, tasks, records. Pure.


WHOLE = frozenset({"created", "retried", "extended"})
"""Changes of a job after which all of its tasks are read: queued tasks are not in the log."""


class Item(NamedTuple):
    """The last change of one task or record in a batch."""

    change: int
    op: str
    version: int


@dataclass(slots=True)
class RowRequests:
    """The rows that a batch requires. Jobs are named by their public ids; a record of world scope has the job None."""

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    """The jobs in the batch, each with its last change, by pipeline."""
    whole: dict[str, set[str]] = field(default_factory=dict)
    """The jobs of which every task and every record is read, by pipeline."""
    tasks: dict[str, dict[str, dict[str, Item]]] = field(default_factory=dict)
    """Tasks by pipeline, job and key."""
    records: dict[str, dict[str | None, dict[str, Item]]] = field(default_factory=dict)
    """Records by kind, job and key."""

    @property
    def is_empty(self) -> bool:
        return not (self.jobs or self.tasks or self.records)


def asked(batch: Sequence[Change], mirrors: Mapping[str, Mirror], kinds: frozenset[str]) -> RowRequests:
    """Sort a batch. `kinds`: the kinds of changes that are mirrored."""
    found = RowRequests()
    for change in batch:
        if change.kind not in kinds:
            continue
        job = str(change.job) if change.job is not None else None
        mirrored = change.pipeline in mirrors and job is not None
        if change.pipeline is not None and job is not None and mirrored:
            found.jobs.setdefault(change.pipeline, {})[job] = change.id
            if change.kind == "job" and change.op in WHOLE:
                found.whole.setdefault(change.pipeline, set()).add(job)
            if change.kind == "task" and change.body is not None:
                of_job = found.tasks.setdefault(change.pipeline, {}).setdefault(job, {})
                of_job[change.body["key"]] = Item(change.id, change.op, change.version)
        if change.kind not in ("job", "task"):
            of_kind = found.records.setdefault(change.kind, {})
            of_job = of_kind.setdefault(job if change.scope == "job" else None, {})
            of_job[change.key] = Item(change.id, change.op, change.version)
    return found


# Checks and encodes the values of a row before they are sent, because one bad value fails a whole load.
#
# BigQuery names neither the row nor the reason in a way that a program could use. So a value that its column cannot
# hold is found here, and only its change is set aside.


LARGEST_ROW = 10 * 1024 * 1024
"""Bytes. BigQuery refuses rows in a load that are much larger."""
_MOST_NUMERIC = Decimal(10) ** 29
_NUMERIC_SCALE = 9


def line_of(table: MirrorTable, row: Mapping[str, Any], **more: Any) -> bytes:
    """Return a row as a line of JSON, with its end of line; `more` are further columns. JSON values are text: the
    statement that merges them parses it. Raises `Permanent` for a value that its column cannot hold."""
    encoded = {column.name: encode(column, row[column.name], table.name) for column in table.columns}
    line = orjson.dumps({**encoded, **more}) + b"\n"
    if len(line) > LARGEST_ROW:
        raise Permanent(f"A row of {table.name} has {len(line):,} bytes; BigQuery takes at most {LARGEST_ROW:,}.")
    return line


def encode(column: MirrorColumn, value: Any, table: str) -> Any:
    """Return the JSON form of a value; None is NULL. Raises `Permanent` if the column cannot hold it."""
    if value is None:
        return None
    try:
        if column.type == "STRUCT":
            inside = orjson.loads(value) if isinstance(value, str | bytes) else value
            return {field.name: encode(field, inside.get(field.name), table) for field in column.fields}
        return _ENCODERS[column.type](value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Permanent(f"{table}.{column.name} is {column.type} and cannot hold a value: {error}.") from error


def _text(value: Any) -> str:
    return str(value)


def _whole(value: Any) -> int:
    number = int(value)
    if number != value or not -(2**63) <= number < 2**63:
        raise ValueError("it is not a 64-bit integer")
    return number


def _float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("it is not finite")
    return number


def _numeric(value: Any) -> str:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("it is not a number") from None
    if not number.is_finite() or abs(number) >= _MOST_NUMERIC:
        raise ValueError("it has more than 29 digits before its point")
    rounded = round(number, _NUMERIC_SCALE)
    if rounded != number:
        raise ValueError("it has more than 9 digits after its point")
    return format(rounded.normalize(), "f")


def _time(value: Any) -> str:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("it is a time without a zone")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _day(value: Any) -> str:
    return (value if isinstance(value, date) else date.fromisoformat(value)).isoformat()


def _json(value: Any) -> str:
    if isinstance(value, str | bytes):
        orjson.loads(value)  # it is stored as text; a text that is not JSON would fail the whole batch
        return value if isinstance(value, str) else value.decode()
    return orjson.dumps(value).decode()


_ENCODERS: Mapping[ColumnType, Callable[[Any], Any]] = {
    "STRING": _text,
    "INT64": _whole,
    "FLOAT64": _float,
    "BOOL": bool,
    "TIMESTAMP": _time,
    "DATE": _day,
    "NUMERIC": _numeric,
    "JSON": _json,
}


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

    def _prepare(self, wanted: RowRequests) -> None:
        """Create the tables of the pipelines that a batch names, also those that stay empty for now."""
        for pipeline in wanted.jobs:
            mirror = self._rows.mirrors[pipeline]
            tables = {"job": mirror.jobs, "task": mirror.tasks, **mirror.records}
            for kind in sorted(tables.keys() & self._mirrored):
                self._warehouse.prepare(tables[kind])

    async def _merge(self, wanted: RowRequests, last: int) -> None:
        staged = [each async for each in self._staged(wanted, last)]
        try:
            for each in staged:
                if not each.is_empty:
                    await asyncio.to_thread(self._warehouse.merge, each.table, each.file, each.jobs)
                    self._faults.at("bigquery-merged")
        finally:
            for each in staged:
                each.file.close()

    async def _bring_whole_jobs(self, wanted: RowRequests, last: int) -> None:
        """Load jobs whole before the batch: those that it marks, and those that the warehouse does not have, since
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
                    await self._merge(
                        RowRequests(jobs={pipeline: dict.fromkeys(group, last)}, whole={pipeline: group}), last
                    )
                except Permanent as error:
                    if group & named:
                        raise
                    log.error("bigquery_jobs_left_out", jobs=sorted(group)[:10], error=error.message)
                self._remember(dict.fromkeys(group, last))

    async def _staged(self, wanted: RowRequests, last: int) -> AsyncIterator[Staged]:
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

    def _whole_kinds(self, wanted: RowRequests) -> set[str]:
        """Return the kinds of records that come with whole jobs."""
        return {
            kind
            for pipeline, jobs in wanted.whole.items()
            if jobs
            for kind in self._rows.mirrors[pipeline].records
            if kind in self._mirrored
        }

    async def _tasks(self, pipeline: str, wanted: RowRequests, numbers: Mapping[str, int], last: int) -> Staged:
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

    async def _records(self, kind: str, wanted: RowRequests, numbers: Mapping[str, int], last: int) -> Staged:
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

        A record that was gone and then archived is also missing, but the warehouse keeps its row. The archive has its
        last version; a later one is the rename of a record that had come back.
        """
        gone = {name: item for name, item in missing.items() if item.op == "gone"}
        archived = await self._rows.archived(kind, gone)
        return {name: item for name, item in gone.items() if item.version > archived.get(name, 0)}

    async def _jobs(self, pipeline: str, wanted: RowRequests, last: int) -> Staged:
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
    which comes after the task's records."""
    details = row["details"]
    state = TaskState(orjson.loads(details)["state"] if isinstance(details, str) else details["state"]).public()
    return state in _ENDED and state != item.op
