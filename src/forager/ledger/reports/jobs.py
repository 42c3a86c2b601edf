"""Jobs and their tasks, one or many, and the dead letters among them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.ids import claim_text, task_numbers, task_uuid
from forager.core.states import PUBLIC_STATE, TERMINAL_JOBS, JobState, TaskState
from forager.core.storage import FileName, StoredFile
from forager.sdk.queries import MOST, QueryPage, Walk, at, job_number, loads, no_job, task_body, walk
from forager.sdk.reports import EvidenceReport, JobFailure, JobReport, Report, TaskDetail, TaskReport


class QueuedTask(Report):
    """A task that does not run yet, with what is known about its wait."""

    lane: str
    state: TaskState
    due_at: datetime | None
    error: str | None
    reason: str | None
    is_offered: bool = False
    """True if a message names it: until it is due, only a worker that reads the message can take it."""


class AttemptReport(Report):
    """One attempt of a task. Failed attempts are kept; steps that declare it keep all."""

    attempt: int = Field(description="Number of the attempt; one that burned none has the number of the next.")
    started_at: datetime
    duration_ms: int = Field(description="From the start of the step to its end, waits for its lane included.")
    status: str = Field(description="completed, failed, skipped, snoozed, given_back or lost (its worker died)")
    reason: str | None = Field(description="Why it failed or was postponed, as a code.")
    error_type: str | None = Field(description="Category of the failure: network, http, parse and so on.")
    message: str | None = Field(description="Why it failed or was postponed, as a message.")
    traceback: str | None = Field(description="The place in the code at which it failed.")


class DeadLetter(TaskReport):
    """A task that has failed permanently."""

    pipeline: str


class DeadReason(Report):
    """Dead letters that failed for the same reason."""

    pipeline: str
    reason: str | None
    error_type: str | None
    letters: int
    last_failed_at: datetime


class DeadLetterDetail(DeadLetter):
    body: Any = Field(description="The task's input as stored.")
    evidence: EvidenceReport | None


_JOB = """
SELECT public_id, pipeline, state, drain, reason, params, estimate, schedule, created_at, started_at,
       finished_at, batch_size, concurrency, max_cost, total, queued, running, completed, failed, skipped, cancelled,
       retries, spent, guessed, reserved, records, discoveries, rejected, id FROM jobs
"""
_FEW = tuple(f"j{number}" for number in range(100))
# As JSON text, which is the same on both databases. Keys that begin with a space belong to Forager's own standing jobs.
_PARAM_OF_JOBS = f"""
SELECT public_id, pipeline, CAST(params -> CAST(:name AS TEXT) AS TEXT) AS value FROM jobs j
WHERE public_id IN ({", ".join(f":{name}" for name in _FEW)})
  AND NOT EXISTS (SELECT 1 FROM idempotency i WHERE i.job_id = j.id AND i.key LIKE ' %')
"""
_SLOTS = tuple(f"n{number}" for number in range(16))
_FOR_LOG = f"""
SELECT id, public_id, pipeline, request_id, state, reason, schedule, max_cost, started_at, finished_at, total, queued,
       completed, failed, skipped, cancelled, retries, spent, records, discoveries, rejected,
       EXISTS (SELECT 1 FROM idempotency i WHERE i.job_id = j.id AND i.key LIKE ' %') AS standing
FROM jobs j WHERE id IN ({", ".join(f":{name}" for name in _SLOTS)})
"""
FAILURES = "SELECT reason, count(*) AS n FROM tasks_now WHERE job_id = :job AND state = 5 GROUP BY reason"
_FAILURES = """
SELECT reason, count(*) AS tasks, max(error) AS error FROM tasks_now WHERE job_id = :job AND state = 5
GROUP BY reason ORDER BY count(*) DESC, reason LIMIT 20
"""
_TASK = """
SELECT id, job_id, lane_id, kind, key, state, attempt, claim, claimed_at, due, "after", cost, guessed, error,
       reason, error_type, facts, ended_at, hidden, body FROM
"""
_NAMES = "JOIN lanes l ON l.id = w.lane_id JOIN jobs j ON j.id = w.job_id"
_NAMED = "w.*, l.name AS lane, j.public_id, j.pipeline"


# The input contains the address of a page, which the key may hold as a hash only.
_CONTAINS = r"(lower(t.key) LIKE :text ESCAPE '\' OR lower(CAST(t.body AS TEXT)) LIKE :text ESCAPE '\')"
_LITERALLY = str.maketrans({each: f"\\{each}" for each in "\\%_"})


async def jobs_for_log(db: Database, numbers: Sequence[int]) -> list[Row]:
    rows: list[Row] = []
    for first in range(0, len(numbers), len(_SLOTS)):
        some = dict(zip(_SLOTS, numbers[first : first + len(_SLOTS)], strict=False))
        rows += await db.fetch_fresh(_FOR_LOG, dict.fromkeys(_SLOTS, -1) | some)
    return rows


async def job_failures(db: Database, job: UUID) -> list[JobFailure]:
    """Return why tasks of a job have failed, the most frequent reason first. Reads all tasks of the job."""
    rows = await db.fetch(_FAILURES, {"job": await job_number(db, job)})
    return [JobFailure(**row) for row in rows]


class Why(NamedTuple):
    """Only tasks with this reason, this error type; None: any."""

    reason: str | None = None
    error_type: str | None = None


ANY = Why()


class JobFilter(NamedTuple):
    """Filters of a list of jobs. A value that is None or empty excludes nothing."""

    state: str | None = None
    pipeline: str | None = None
    prefix: str | None = None
    """The first characters of the public id."""
    hidden: tuple[str, ...] = ()
    """Pipelines that are left out."""
    schedule: str | None = None
    """The schedule that created them."""
    standing: tuple[str, ...] = ()
    """Idempotency keys of standing jobs, which are left out, together with all keys that begin with one and a slash."""


async def list_jobs(db: Database, asked: JobFilter, *, cursor: str | None, limit: int) -> QueryPage[JobReport]:
    """Newest first."""
    where, only = ((), ()) if asked.state is None else _with_job_state(asked.state)
    values: dict[str, Any] = {}
    if asked.pipeline is not None:
        only, values = (*only, "w.pipeline = :pipeline"), {"pipeline": asked.pipeline}
    if asked.schedule is not None:
        only, values = (*only, "w.schedule = :schedule"), {**values, "schedule": asked.schedule}
    if asked.prefix is not None:
        # The range is what the index on public_id serves: it takes the first group of the id, which has no hyphen, so
        # that no collation orders it differently. `g` comes after every hexadecimal digit.
        first = asked.prefix[:8]
        where = (*where, "public_id >= :first", "public_id < :behind", "public_id LIKE :prefix")
        values |= {"first": first, "behind": f"{first}g", "prefix": f"{asked.prefix}%"}
    for number, name in enumerate(asked.hidden):
        only, values = (*only, f"w.pipeline <> :hidden{number}"), {**values, f"hidden{number}": name}
    if asked.standing:
        only, values = (*only, _not_standing(asked.standing)), {**values, **_standing_keys(asked.standing)}
    plan = Walk("jobs", _JOB, ("id",), where, descending=True, only=only, values=values)
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[job_report(row) for row in rows], next_cursor=following)


def _standing_keys(standing: Sequence[str]) -> dict[str, str]:
    keys = {f"standing{number}": key for number, key in enumerate(standing)}
    return keys | {f"under{number}": f"{key}/" for number, key in enumerate(standing)}


def _not_standing(standing: Sequence[str]) -> str:
    """Return the condition that a job of the walk has none of these keys and no key below one of them.

    The keys of a job are found by its number. A range of keys would depend on the database's collation, and most
    collations ignore spaces and slashes at first.
    """
    same = [f"i.key = :standing{number}" for number in range(len(standing))]
    below = [f"substr(i.key, 1, {len(key) + 1}) = :under{number}" for number, key in enumerate(standing)]
    found = " OR ".join(same + below)
    return f"NOT EXISTS (SELECT 1 FROM idempotency i WHERE i.job_id = w.id AND ({found}))"


async def one_job(db: Database, job: UUID) -> JobReport:
    rows = await db.fetch(f"{_JOB} WHERE public_id = :job", {"job": str(job)})
    if not rows:
        raise no_job(job)
    return job_report(rows[0])


async def param_of_jobs(db: Database, jobs: Sequence[UUID], name: str) -> dict[UUID, tuple[str, Any]]:
    by_job: dict[UUID, tuple[str, Any]] = {}
    for first in range(0, len(jobs), len(_FEW)):
        few = [str(job) for job in jobs[first : first + len(_FEW)]]
        rest = dict.fromkeys(_FEW[len(few) :], few[0])  # as many values as the statement has
        rows = await db.fetch(_PARAM_OF_JOBS, {"name": name, **dict(zip(_FEW, few, strict=False)), **rest})
        by_job |= {UUID(row["public_id"]): (row["pipeline"], loads(row["value"])) for row in rows}
    return by_job


async def last_moved(db: Database, job: UUID) -> datetime | None:
    """Return when the newest change of a job was written; None if it has none."""
    rows = await db.fetch(
        "SELECT at FROM changes WHERE job_id = (SELECT id FROM jobs WHERE public_id = :job) ORDER BY id DESC LIMIT 1",
        {"job": str(job)},
    )
    return at(rows[0]["at"]) if rows else None


async def list_tasks(
    db: Database, job: UUID, *, state: str | None, why: Why, text: str | None, cursor: str | None, limit: int
) -> QueryPage[TaskReport]:
    """In the order of kind and key."""
    only, values = _because("t", why)
    if state is not None:
        only.append(_with_task_state(state))
    if text is not None:
        only.append(_CONTAINS)
        values["text"] = f"%{text.lower().translate(_LITERALLY)}%"
    # The walk reads names only; where a task stands now is looked up for what it finds. Together they would make a
    # planner with stale statistics join a whole job with the whole queue first.
    plan = Walk(
        f"tasks of {job}",
        "SELECT id, kind, key FROM tasks",
        ("kind", "key"),
        ("job_id = :job",),
        columns="t.*, l.name AS lane, j.public_id",
        joins="JOIN tasks_now t ON t.id = w.id JOIN lanes l ON l.id = t.lane_id JOIN jobs j ON j.id = t.job_id",
        only=tuple(only),
        values={**values, "job": await job_number(db, job)},
    )
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[TaskReport(**task_fields(row)) for row in rows], next_cursor=following)


async def require_task(db: Database, task: UUID) -> Row:
    """Its row. Raises `NotFound`."""
    row = await _find(db, task, "")
    if row is None:
        raise NotFound(f"There is no task {task}. `forager jobs show` lists a job's tasks.")
    return row


async def one_task(db: Database, task: UUID) -> TaskDetail:
    row = await require_task(db, task)
    return TaskDetail(**task_fields(row), body=task_body(row["body"]), evidence=await _evidence(db, row["id"]))


async def list_dead(
    db: Database, *, job: UUID | None, pipeline: str | None, why: Why, cursor: str | None, limit: int
) -> QueryPage[DeadLetter]:
    """Newest first, over all jobs."""
    only, values = await _dead_filter(db, job, pipeline, why)
    plan = Walk(
        "dead",
        f"{_TASK} dead_letters",
        ("ended_at", "id"),
        (),
        descending=True,
        columns=_NAMED,
        joins=_NAMES,
        only=tuple(only),
        values=values,
    )
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[_dead(DeadLetter, row) for row in rows], next_cursor=following)


async def dead_reasons(db: Database, *, job: UUID | None, pipeline: str | None, why: Why) -> list[DeadReason]:
    """Count dead letters by pipeline, reason and type of error, most first."""
    only, values = await _dead_filter(db, job, pipeline, why)
    rows = await db.fetch(
        "SELECT j.pipeline, w.reason, w.error_type, count(*) AS letters, max(w.ended_at) AS last_failed_at"
        " FROM dead_letters w JOIN jobs j ON j.id = w.job_id"
        f" WHERE {' AND '.join(only)} GROUP BY j.pipeline, w.reason, w.error_type"
        f" ORDER BY count(*) DESC, max(w.ended_at) DESC LIMIT {MOST}",
        values,
    )
    return [DeadReason(**{**row, "last_failed_at": at(row["last_failed_at"])}) for row in rows]


async def _dead_filter(
    db: Database, job: UUID | None, pipeline: str | None, why: Why
) -> tuple[list[str], dict[str, Any]]:
    """Return conditions for dead letters `w` of jobs `j` that are not discarded, and their values."""
    only, values = _because("w", why)
    only.append("NOT w.hidden")
    if job is not None:
        only.append("w.job_id = :job")
        values["job"] = await job_number(db, job)
    if pipeline is not None:
        only.append("j.pipeline = :pipeline")
        values["pipeline"] = pipeline
    return only, values


async def one_dead(db: Database, task: UUID) -> DeadLetterDetail:
    row = await _find(db, task, " AND state = 5")
    if row is None:
        raise NotFound(f"There is no dead letter {task}. See `forager dead list`.")
    fields = task_fields(row)
    evidence = await _evidence(db, row["id"])
    return DeadLetterDetail(**fields, pipeline=row["pipeline"], body=task_body(row["body"]), evidence=evidence)


async def screenshot(db: Database, task: UUID) -> bytes:
    """Return the PNG of a page that failed."""
    numbers = task_numbers(task)
    rows = await db.fetch(
        "SELECT e.screenshot FROM evidence e JOIN tasks t ON t.id = e.task_id"
        " WHERE t.id = :task AND t.job_id = :job AND e.screenshot IS NOT NULL",
        {"job": numbers[0] if numbers else -1, "task": numbers[1] if numbers else -1},
    )
    if not rows:
        raise NotFound(f"There is no screenshot of task {task}: no browser was on its page, or it is too long ago.")
    return bytes(rows[0]["screenshot"])


async def evidence_files(db: Database, task: UUID) -> list[StoredFile]:
    """Return the stored body and screenshot of a failed task's page, as far as they exist."""
    numbers = task_numbers(task)
    rows = await db.fetch(
        "SELECT e.content_type, e.body, e.screenshot, t.ended_at FROM evidence e JOIN tasks t ON t.id = e.task_id"
        " WHERE t.id = :task AND t.job_id = :job",
        {"job": numbers[0] if numbers else -1, "task": numbers[1] if numbers else -1},
    )
    files: list[StoredFile] = []
    for row in rows:
        kept: tuple[tuple[FileName, str, Any], ...] = (
            ("raw", row["content_type"], row["body"]),
            ("screenshot", "image/png", row["screenshot"]),
        )
        files += [StoredFile(name, kind, bytes(body), at=at(row["ended_at"])) for name, kind, body in kept if body]
    return files


async def _find(db: Database, task: UUID, condition: str) -> Row | None:
    numbers = task_numbers(task)
    if numbers is None:
        return None
    values: Mapping[str, Any] = {"job": numbers[0], "task": numbers[1]}
    sql = f"{_TASK} tasks_now WHERE id = :task AND job_id = :job{condition}"
    rows = await db.fetch(f"SELECT {_NAMED} FROM ({sql}) w {_NAMES}", values)
    return rows[0] if rows else None


async def _evidence(db: Database, task: int) -> EvidenceReport | None:
    rows = await db.fetch(
        "SELECT content_type, body, kept_until, screenshot IS NOT NULL AS has_screenshot FROM evidence"
        " WHERE task_id = :task",
        {"task": task},
    )
    return evidence_report(rows[0]) if rows else None


def _dead(kind: type[DeadLetter], row: Row) -> DeadLetter:
    return kind(**task_fields(row), pipeline=row["pipeline"])


def _because(table: str, why: Why) -> tuple[list[str], dict[str, Any]]:
    """Conditions and their values for tasks that failed or were skipped for this reason."""
    asked = {name: value for name, value in why._asdict().items() if value is not None}
    return [f"{table}.{name} = :{name}" for name in asked], asked


def _with_job_state(state: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the states that an index serves, and those that are filtered afterwards. Open jobs are few, and
    ix_jobs_open has them."""
    known = {s.public() for s in JobState}
    if state not in known:
        raise _unknown_state(state, known)
    if state == JobState.CANCELLED:
        return (), ("(w.state = 'cancelled' OR w.drain = 'cancelled')",)
    if JobState(state) in TERMINAL_JOBS:
        return (), (f"w.state = '{JobState(state).value}'",)
    words = ", ".join(f"'{s.value}'" for s in JobState if s.public() == state)
    return ("finished_at IS NULL", f"state IN ({words})"), ("(w.drain IS NULL OR w.drain <> 'cancelled')",)


def _with_task_state(state: str) -> str:
    numbers = [str(int(s)) for s, public in PUBLIC_STATE.items() if public == state]
    if not numbers:
        raise _unknown_state(state, set(PUBLIC_STATE.values()))
    return f"t.state IN ({', '.join(numbers)})"


def _unknown_state(state: str, known: set[str]) -> Rejected:
    problem = FieldError("state", f"unknown state {state!r}; choose from {', '.join(sorted(known))}")
    return Rejected(f"state: {problem.message}", fields=[problem])


# Converts rows to reports: milliseconds to times, numbers to public ids, internal states to public ones.


PAGE_FIELDS = ("target_url", "url")
"""Fields of a task's input that name the page it is about."""


def public_job_state(state: str, drain: str | None) -> str:
    """Return a job's public state. A job counts as cancelled from the request on, although its queued tasks are ended
    page by page."""
    return "cancelled" if drain == "cancelled" else JobState(state).public()


def job_report(row: Row) -> JobReport:
    values = {**row, "id": row["public_id"], "state": public_job_state(row["state"], row["drain"])}
    values.update({name: at(row[name]) for name in ("created_at", "started_at", "finished_at")})
    return JobReport(**{**values, "params": loads(row["params"]), "estimate": loads(row["estimate"])})


def task_fields(row: Row) -> dict[str, Any]:
    """Return the fields that every kind of task report has."""
    job, claimed_at = row["job_id"], row["claimed_at"]
    return {
        "id": task_uuid(job, row["id"]),
        "job": row["public_id"],
        "kind": row["kind"],
        "key": row["key"],
        "url": _page(row["body"]),
        "lane": row["lane"],
        "state": TaskState(row["state"]).public(),
        "attempts": row["attempt"],
        "claim": None if row["claim"] is None or claimed_at is None else claim_text(claimed_at, row["claim"]),
        "claimed_at": at(claimed_at),
        "due_at": at(row["due"]),
        "after": None if row["after"] is None else task_uuid(job, row["after"]),
        "cost": row["cost"],
        "guessed": row["guessed"],
        "error": row["error"],
        "reason": row["reason"],
        "error_type": row["error_type"],
        "facts": loads(row["facts"]) or {},
        "ended_at": at(row["ended_at"]),
    }


def _page(body: bytes) -> str | None:
    """Return the page that a task's input names, if it names one."""
    fields = task_body(body)
    if not isinstance(fields, Mapping):
        return None
    return next((url for name in PAGE_FIELDS if isinstance(url := fields.get(name), str)), None)


def evidence_report(row: Row) -> EvidenceReport:
    body = bytes(row["body"])
    return EvidenceReport(
        content_type=row["content_type"],
        size=len(body),
        has_screenshot=bool(row["has_screenshot"]),
        text=body.decode(errors="replace"),
        kept_until=datetime.fromtimestamp(row["kept_until"] / 1000, UTC),
    )
