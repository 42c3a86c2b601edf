"""A row of the change log before it has its number: each ledger numbers it in its own way."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import orjson

from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import Conflict, NotFound
from forager.core.ids import task_uuid
from forager.core.ledger import JobNews, NewJob
from forager.core.record import Record
from forager.core.states import ENDS, JobState, TaskState
from forager.ledger.schema.record_tables import RecordTable
from forager.sdk.queries import task_body

if TYPE_CHECKING:
    from forager.ledger.catalog import Catalog

_news: ContextVar[list[JobNews] | None] = ContextVar("news", default=None)
"""The news of jobs from the transaction that runs in this context."""


def collect_news() -> list[JobNews]:
    """Begin a transaction in this context. Returns the list of its news, which count once it is committed. What a
    savepoint takes back must be removed from the list again."""
    news: list[JobNews] = []
    _news.set(news)
    return news


def news_so_far() -> list[JobNews]:
    return _news.get() or []


def note(job: int, op: str, new: dict[str, Any] | None = None) -> None:
    """Note what this transaction does to a job, for the log."""
    if (news := _news.get()) is not None:
        news.append(JobNews(job, op, new))


class NewChange(NamedTuple):
    kind: str
    key: str
    op: str
    version: int
    job_id: int | None
    body: bytes | None = None


def job_change(
    job: int, public_id: str, op: str, state: JobState, version: int, more: dict[str, Any] | None = None
) -> NewChange:
    """Return a change of a job, and note it for the log."""
    note(job, op)
    return NewChange("job", public_id, op, version, job, orjson.dumps({"state": state.value, **(more or {})}))


def job_created(number: int, public_id: str, state: JobState, job: NewJob, total: int) -> NewChange:
    """Return the first change of a job that is created in one transaction."""
    about = {
        "id": number,
        "public_id": public_id,
        "pipeline": job.pipeline,
        "request_id": job.request_id,
        "total": total,
        "max_cost": job.limits.max_cost,
        "schedule": job.schedule,
        "standing": job.standing,
    }
    note(number, "created", about)
    return NewChange("job", public_id, "created", 1, number, orjson.dumps({"state": state.value}))


def row_renamed(
    record: type[Record], weaker: str, stronger: str, job: int, version: int
) -> tuple[NewChange, NewChange]:
    """Return the changes when a job's own row of a record takes a stronger key: the weaker key is gone, and the
    stronger one is new in that job. `version` is the row's, which stays the same."""
    moved_to = orjson.dumps({record.key_field: stronger})
    return (
        NewChange(record.kind, weaker, "gone", version + 1, job, moved_to),
        NewChange(record.kind, stronger, "new", version, job),
    )


def then(change: NewChange, ended: Iterable[NewChange]) -> list[NewChange]:
    """Return a change of a job and, if the job ends in the same transaction, its end with the next version. The end was
    numbered without the other change."""
    return [change, *(end._replace(version=end.version + (end.key == change.key)) for end in ended)]


# A change as it is read from the log. Its body stays JSON until a reader needs values.
#
# Most sinks pass the body on as JSON. To decode every nested value, and to encode it again a moment later, would cost
# almost as much as the reading itself.


class StoredChange(Change):
    """A `Change` whose `body` is given as JSON text, as fields of which some are `orjson.Fragment`, or as None."""

    __slots__ = ("_stored", "_values")
    _stored: Any
    _values: Mapping[str, Any] | None

    @property
    def body(self) -> Mapping[str, Any] | None:
        """The whole value after the change, decoded when it is first read."""
        if self._values is None and self._stored is not None:
            self._values = _decoded(self._stored)
        return self._values

    @body.setter
    def body(self, stored: str | bytes | Mapping[str, Any] | None) -> None:
        self._stored, self._values = stored, None

    @property
    def json(self) -> Any:
        return orjson.Fragment(self._stored) if isinstance(self._stored, str | bytes) else self._stored

    @property
    def fields(self) -> Mapping[str, Any] | None:
        return self.body if isinstance(self._stored, str | bytes) else self._stored


def _decoded(stored: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(stored, str | bytes):
        decoded: dict[str, Any] = orjson.loads(stored)
        return decoded
    return {name: _value(part) for name, part in stored.items()}


def _value(part: Any) -> Any:
    return orjson.loads(orjson.dumps(part)) if isinstance(part, orjson.Fragment) else part


# Reading the change log. A change is whole when it leaves here: public ids and, for records of job scope, its body.
#
# The log stores no body for a record of job scope: the row in the record's table is final, so storing it again would
# double the size of most of the log and slow every settlement. The body is joined when the change is read, with one
# query for each kind in a page (two where a row has been renamed since), never one for each change.


_PAGE = """
SELECT c.id, c.kind, c.key, c.op, c.version, coalesce(j.public_id, p.public_id), coalesce(j.pipeline, p.pipeline),
  c.at, c.body
FROM (SELECT * FROM changes WHERE {asked} ORDER BY id LIMIT :limit) c
LEFT JOIN jobs j ON j.id = c.job_id LEFT JOIN past_jobs p ON p.id = c.job_id ORDER BY c.id
"""
# Bounded by the numbers of the page, so that both databases walk the same part of the same index as for the page.
_BODIES = """
SELECT {columns}, c.id FROM (SELECT id, job_id, key FROM changes WHERE id >= :first AND id <= :last AND kind = :kind
  AND body IS NULL{of_job} ORDER BY id LIMIT :limit) c
{alias}JOIN {table} r ON r.job_id = c.job_id AND r.{key} = {name}
"""
_KIND, _JOB = 1, 5
"""Columns of a page."""
_ALIAS = "JOIN aliases a ON a.identity = :identity AND a.alias = c.key "
_OF_JOB = " AND job_id = (SELECT id FROM jobs WHERE public_id = :job)"


class ChangeReader:
    """Reads pages of the log. It needs nothing of its database but `fetch_tuples`."""

    def __init__(self, database: Database, catalog: "Catalog") -> None:
        self._db = database
        self._catalog = catalog

    async def page(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> list[Change]:
        """Up to `limit` changes after a number, in the order of their numbers.

        `bodies=False` spares the join: changes of records of job scope then have no body.
        """
        if kinds is not None and not kinds:
            return []
        conditions, values = ["id > :after"], {"after": after, "limit": limit}
        if until is not None:
            conditions.append("id <= :until")
            values["until"] = until
        condition, more = _asked(job, kinds)
        rows = await self._db.fetch_tuples(_PAGE.format(asked=" AND ".join(conditions) + condition), {**values, **more})
        joined = await self._bodies(rows, job) if bodies else {}
        jobs = {name: UUID(name) if name else None for name in {row[_JOB] for row in rows}}
        scopes = {kind: self._scope(kind) for kind in {row[_KIND] for row in rows}}
        body_of = joined.get
        # Read by position: a page has up to thousands of rows, and names would cost a tenth of the whole read.
        return [
            StoredChange(n, kind, key, op, version, jobs[job], of, at, body or body_of(n), scopes[kind])
            for n, kind, key, op, version, job, of, at, body in rows
        ]

    def _scope(self, kind: str) -> str:
        table = self._catalog.records.get(kind)
        return "world" if table is None else table.record.scope

    async def _bodies(self, rows: Sequence[Sequence[Any]], job: UUID | None) -> dict[int, dict[str, Any]]:
        """Return the bodies, by change, of the changes in a page that are stored without one."""
        wanting: dict[str, dict[int, str]] = {}
        for number, kind, key, *_, body in rows:
            if body is None:
                wanting.setdefault(kind, {})[number] = key
        bodies: dict[int, dict[str, Any]] = {}
        for kind, keys in wanting.items():
            if self._scope(kind) == "job":
                bodies |= await self._bodies_of(self._catalog.records[kind], keys, job)
        return bodies

    async def _bodies_of(
        self, table: RecordTable, keys: Mapping[int, str], job: UUID | None
    ) -> dict[int, dict[str, Any]]:
        values = {"first": min(keys), "last": max(keys), "kind": table.record.kind, "limit": len(keys)}
        if job is not None:
            values["job"] = str(job)
        bodies = await self._join(table, values)
        if len(bodies) < len(keys) and table.record.identity is not None:
            # A row that has been renamed since is under its stronger name; the change was made under the weaker.
            renamed = await self._join(table, {**values, "identity": table.record.identity})
            for number in renamed.keys() - bodies.keys():
                bodies[number] = {**renamed[number], table.record.key_field: keys[number]}
        return bodies

    async def _join(self, table: RecordTable, values: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        by_alias = "identity" in values
        sql = _BODIES.format(
            columns=", ".join(f'r."{column}"' for column in table.told),
            of_job=_OF_JOB if "job" in values else "",
            alias=_ALIAS if by_alias else "",
            table=table.name,
            key=f'"{table.record.key_field}"',
            name="a.key" if by_alias else "c.key",
        )
        return {row[-1]: table.parts(row) for row in await self._db.fetch_tuples(sql, values)}


def _asked(job: UUID | None, kinds: Collection[str] | None) -> tuple[str, dict[str, Any]]:
    """Return the conditions for a job and for kinds, with their values."""
    condition, values = "", {}
    if job is not None:
        condition, values["job"] = _OF_JOB, str(job)
    if kinds is not None:
        names = {f"kind{number}": kind for number, kind in enumerate(sorted(kinds))}
        condition += f" AND kind IN ({', '.join(f':{name}' for name in names)})"
        values |= names
    return condition, values


# Tasks in the change log: a row for every task that enters or leaves a state in its pipeline's `logged_states`.
#
# The row is written in the transaction of the state, so that a sink learns of every dead letter exactly once, also
# after kill -9. Pure; each ledger reads the tasks and numbers the rows.


KIND = "task"
TOLD_TASK = "id, job_id, kind, key, body, state, reason, error_type, error, attempt"


class LoggedTask(NamedTuple):
    """A row of `tasks`, with the columns of `TOLD_TASK`."""

    id: int
    job_id: int
    kind: str
    key: str
    body: bytes
    state: int
    reason: str | None
    error_type: str | None
    error: str | None
    attempt: int


def with_logged_state(
    catalog: "Catalog", noted: Mapping[int, TaskState], rows: Iterable[LoggedTask]
) -> dict[str, LoggedTask]:
    """Keep the tasks whose pipeline logs the state in which they were noted. Returns them by public id.

    Ended tasks come first, highest number first: a reader that stops in the middle of a transaction has then seen the
    skipped followers of a task before the end that skipped them. Others are in the order of their numbers.
    """
    wanted = (row for row in rows if noted[row.id] in catalog.logged_states.get(row.kind, ()))
    in_order = sorted(wanted, key=lambda row: (0, -row.id) if row.state in ENDS else (1, row.id))
    return {str(task_uuid(row.job_id, row.id)): row for row in in_order}


def task_change(name: str, row: LoggedTask, version: int) -> NewChange:
    """Return the row of the log for a task in its present state, with everything that is needed to act on it. `name`:
    its public id."""
    state = TaskState(row.state).public()
    about = {
        "task_id": name,
        "kind": row.kind,
        "key": row.key,
        "state": state,
        "reason": row.reason,
        "error_type": row.error_type,
        "error": row.error,
        "attempts": row.attempt,
        "input": task_body(bytes(row.body)),
    }
    known = {name: value for name, value in about.items() if value is not None}
    return NewChange(KIND, name, state, version, row.job_id, orjson.dumps(known))


# Sums the changes of job counters over a group of settlements in memory. Each ledger writes them once per job.


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
    def __init__(self, *, note_ends: bool = False, logged_states: Collection[TaskState] = ()) -> None:
        self.ends: list[int] | None = [] if note_ends else None
        """The tasks that ended in this transaction, if anything follows from the end of a task."""
        self.logged: dict[int, TaskState] = {}
        """Tasks that entered or left a logged state, with this state."""
        self._logged_states = logged_states
        self._jobs: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))

    def add(self, job: int, **amounts: int) -> None:
        counts = self._jobs[job]
        for name, amount in amounts.items():
            counts[name] += amount

    def note(self, tasks: Iterable[int], state: TaskState) -> None:
        """Note that these tasks have ended in this state."""
        if self.ends is not None or state in self._logged_states:
            ended = list(tasks)
            if self.ends is not None:
                self.ends.extend(ended)
            self.note_back(ended, state)

    def note_back(self, tasks: Iterable[int], was: TaskState) -> None:
        """Note that these tasks, which had ended in this state, are requeued."""
        if was in self._logged_states:
            self.logged.update(dict.fromkeys(tasks, was))

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
        """Return one row per job: its amounts in the order of `COUNTED`, then the job."""
        return [(*[counts.get(name, 0) for name in COUNTED], job) for job, counts in self._jobs.items()]

    def columns(self, jobs: Iterable[int]) -> list[list[int]]:
        """Return one list per counter of `COUNTED`, with the amounts of these jobs."""
        counts = [self._jobs[job] for job in jobs]
        return [[each.get(name, 0) for each in counts] for name in COUNTED]

    def jobs(self) -> Iterable[int]:
        return self._jobs.keys()


# Spending of a lane is stored by UTC day, as a readable number (YYYYMMDD).


def day_and_hour(now: int) -> tuple[int, int]:
    """(YYYYMMDD, 0 to 23) of a moment in Unix milliseconds."""
    moment = datetime.fromtimestamp(now / 1000, UTC)
    return int(moment.strftime("%Y%m%d")), moment.hour


def before_month(day: int) -> int:
    """Return a number below all days of this day's month, and above all of the month before."""
    return day // 100 * 100


# Errors of both databases for jobs whose state does not allow an operation.


def was_cancelled(job: UUID | str) -> Conflict:
    return Conflict(f"Job {job} was cancelled. Create it again instead.")


def has_ended(job: UUID, state: JobState) -> Conflict:
    """Return the error for resuming a job that has ended."""
    if state is JobState.CANCELLED:
        return was_cancelled(job)
    return Conflict(f"Job {job} is {state.public()}: it cannot be resumed. `forager jobs retry` runs failures again.")


def no_dead_letter(tasks: Sequence[UUID]) -> NotFound:
    return NotFound(f"There is no dead letter {', '.join(map(str, tasks[:3]))}. See `forager dead list`.")
