"""The auditor: reads the raw tables of a ledger, never our own API, and reports violations.

It must never write. An empty list means that every invariant holds; each string names one that is broken.
"""

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import orjson

from forager.core.record import Record

Row = dict[str, Any]

OPEN = "(0, 1, 2, 3, 8)"
QUEUED = "(0, 1, 2, 8)"


class Tables(Protocol):
    tasks: str
    """A relation with the true state of every task, whatever tables the store keeps it in."""

    def read(self, sql: str) -> list[Row]: ...
    def snapshot(self) -> AbstractContextManager[None]:
        """All reads inside see one moment, whatever is committed meanwhile. A nested block joins the outer one."""
        ...

    def close(self) -> None: ...


class SqliteTables:
    tasks = "tasks"

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False, timeout=10)
        self._db.row_factory = sqlite3.Row

    def read(self, sql: str) -> list[Row]:
        return [dict(row) for row in self._db.execute(sql)]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


MOST_QUESTIONS = 200
"""More are not remembered: a question that names the moment does not come again."""


class PostgresTables:
    """On PostgreSQL, open work is in `queue`; `tasks` is its identity and its history."""

    tasks = """(SELECT t.id, t.job_id, t.lane_id, t.kind, t.key, coalesce(q.state, t.state) AS state, t.rank,
      coalesce(q.attempt, t.attempt) AS attempt, coalesce(q.claim, t.claim) AS claim, t.claimed_at,
      q.session_id, t."after", t.followed, q.due, t.price, t.cost, t.guessed, t.together, t.crashes, t.hidden,
      t.ended_at, t.error, t.reason, t.error_type, t.facts, t.body
      FROM tasks t LEFT JOIN queue q ON q.task_id = t.id)"""

    def __init__(self, url: str, asked: Counter[str] | None = None, **options: Any) -> None:
        """`asked` counts the queries of checks; tests with the same tables share one. `options` are asyncpg's."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._db: asyncpg.Connection[Any] = self._wait(asyncpg.connect(url, **options))
        except BaseException:
            self._end_loop()
            raise
        self._asked: Counter[str] = Counter() if asked is None else asked
        self._inside = False
        self._ahead: dict[str, list[Row]] = {}

    def read(self, sql: str) -> list[Row]:
        if not self._inside:
            return self._fetch(sql)
        if len(self._asked) < MOST_QUESTIONS or sql in self._asked:
            self._asked[sql] += 1
        return self._ahead[sql] if sql in self._ahead else self._fetch(sql)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A check runs the same two dozen queries after every step of a test. Those that were run twice are then read
        together at the beginning: one round trip instead of two dozen."""
        if self._inside:
            yield
            return
        self._wait(self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        self._inside = True
        try:
            self._ahead = self._read_together([sql for sql, times in self._asked.items() if times > 1])
            yield
        finally:
            self._inside = False
            self._wait(self._db.execute("COMMIT"))

    def _fetch(self, sql: str) -> list[Row]:
        return [dict(row) for row in self._wait(self._db.fetch(sql))]

    def _read_together(self, questions: Sequence[str]) -> dict[str, list[Row]]:
        if not questions:
            return {}
        parts = [f"SELECT {number} AS n, to_json(q) AS row FROM ({sql}) q" for number, sql in enumerate(questions)]
        rows = self._wait(self._db.fetch(" UNION ALL ".join(parts)))
        answers: dict[str, list[Row]] = {sql: [] for sql in questions}
        for row in rows:
            answers[questions[row["n"]]].append(orjson.loads(row["row"]))
        return answers

    def reset(self) -> None:
        """Make the connection as new: no settings, locks, cursors or transaction of its last user."""
        self._wait(self._db.reset())

    def close(self) -> None:
        self._wait(self._db.close())
        self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Any) -> Any:
        async def run() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)


A_DAY = 24 * 3600 * 1000


def audit(
    tables: Tables,
    records: Sequence[type[Record]] = (),
    now: int | None = None,
    *,
    may_rest: bool = False,
    sole: Sequence[str] = (),
    pruned: bool = False,
) -> list[str]:
    """Everything that must hold after every commit. `now` is the ledger's clock in milliseconds, if not the wall's.

    `may_rest`: lanes have rules by which one with ready work may sleep until a moment; never for ever. `sole`: kinds
    of tasks of which one is open for each key. `pruned`: old things were removed, so that what is left cannot be
    compared with what there was.
    """
    of_everything = () if pruned else (_spending, _changes, _rejected)
    checks = (_counters, _ends, _claims, _followers, _orphans, *of_everything)
    with tables.snapshot():
        broken = [line for check in checks for line in check(tables)]
        soon = round(time.time() * 1000) if now is None else now
        broken.extend(_lanes(tables, soon + (A_DAY if may_rest else 0)))
        broken.extend(line for record in records for line in _records(tables, record, pruned=pruned))
        if of_jobs := [record.table for record in records if record.scope == "job"]:
            broken.extend(_records_of_jobs(tables, of_jobs))
        broken.extend(line for kind in sole for line in _sole(tables, kind))
    return broken


def _sole(t: Tables, kind: str) -> Iterator[str]:
    """Such a kind has at most one open task for each key, over all jobs."""
    for row in t.read(
        f"""SELECT key, count(*) AS n FROM {t.tasks} t WHERE kind = '{kind}' AND state IN {OPEN}
        GROUP BY key HAVING count(*) > 1"""
    ):
        yield f"{row['n']} tasks of kind {kind} are open for {row['key']}"


def _counters(t: Tables) -> Iterator[str]:
    """Job counters equal counts over tasks, add up, and no limit is passed."""
    counted = f"""
      SELECT j.id, j.state, j.total, j.queued, j.running, j.completed, j.failed, j.skipped, j.cancelled, j.spent,
        j.guessed, j.reserved, j.max_cost, j.concurrency, count(t.id) AS n_total,
        count(CASE WHEN t.state IN {QUEUED} THEN 1 END) AS n_queued,
        count(CASE WHEN t.state = 3 THEN 1 END) AS n_running,
        count(CASE WHEN t.state = 4 THEN 1 END) AS n_completed, count(CASE WHEN t.state = 5 THEN 1 END) AS n_failed,
        count(CASE WHEN t.state = 6 THEN 1 END) AS n_skipped, count(CASE WHEN t.state = 7 THEN 1 END) AS n_cancelled,
        coalesce(sum(t.cost), 0) AS n_spent, coalesce(sum(t.guessed), 0) AS n_guessed,
        coalesce(sum(CASE WHEN t.state = 3 THEN t.price ELSE 0 END), 0) AS n_reserved
      FROM jobs j LEFT JOIN {t.tasks} t ON t.job_id = j.id WHERE j.state <> 'planning' GROUP BY j.id"""
    parts = ("queued", "running", "completed", "failed", "skipped", "cancelled")
    names = ("total", *parts, "spent", "guessed", "reserved")
    for row in t.read(counted):
        for name in names:
            if row[name] != row[f"n_{name}"]:
                yield f"job {row['id']}: {name} is {row[name]}, counted {row[f'n_{name}']}"
        if row["total"] != sum(row[n] for n in parts):
            yield f"job {row['id']}: total {row['total']} is not the sum of its parts"
        if row["max_cost"] is not None and row["spent"] + row["reserved"] > row["max_cost"]:
            yield f"job {row['id']}: spent {row['spent']} + reserved {row['reserved']} > {row['max_cost']}"
        if row["concurrency"] is not None and row["running"] > row["concurrency"]:
            yield f"job {row['id']}: {row['running']} in flight, allowed {row['concurrency']}"


def _ends(t: Tables) -> Iterator[str]:
    """A finished job has nothing open and has a finish time; an unfinished one has something open."""
    rows = t.read(
        f"""SELECT j.id, j.state, j.finished_at, j.drain, count(t.id) AS open FROM jobs j
        LEFT JOIN {t.tasks} t ON t.job_id = j.id AND t.state IN {OPEN} WHERE j.state <> 'planning' GROUP BY j.id"""
    )
    terminal = ("completed", "partially_completed", "failed", "cancelled")
    for row in rows:
        finished = row["finished_at"] is not None
        if finished != (row["state"] in terminal):
            yield f"job {row['id']}: {row['state']} with finished_at {row['finished_at']}"
        if finished != (row["open"] == 0):
            yield f"job {row['id']}: {row['state']} with {row['open']} open tasks"
        if finished and row["drain"] is not None:
            yield f"job {row['id']}: finished but still draining"
    for row in t.read(f"SELECT id, state, ended_at FROM {t.tasks} t WHERE (state IN {OPEN}) <> (ended_at IS NULL)"):
        yield f"task {row['id']}: state {row['state']} with ended_at {row['ended_at']}"


def _claims(t: Tables) -> Iterator[str]:
    """A running task belongs to one living session; any other belongs to none."""
    for row in t.read(
        f"""SELECT t.id, t.state, t.session_id, t.claim, s.id AS alive FROM {t.tasks} t
        LEFT JOIN sessions s ON s.id = t.session_id
        WHERE (t.state = 3 AND (s.id IS NULL OR t.claim IS NULL)) OR (t.state <> 3 AND t.session_id IS NOT NULL)"""
    ):
        yield f"task {row['id']}: state {row['state']}, session {row['session_id']}, claim {row['claim']}"
    for row in t.read(f"SELECT id FROM {t.tasks} t WHERE state = 1 AND due IS NULL"):
        yield f"task {row['id']}: waits for nothing"


def _followers(t: Tables) -> Iterator[str]:
    """A held task must have an open predecessor that lists it as a follower: nothing else would release it (trap 5). In
    a job that is being ended, page by page, the predecessor may have ended already."""
    for row in t.read(
        f"""SELECT t.id, p.id AS before, p.state, p.followed FROM {t.tasks} t LEFT JOIN {t.tasks} p ON p.id = t."after"
        JOIN jobs j ON j.id = t.job_id WHERE t.state = 2 AND j.state <> 'planning' AND j.drain IS NULL
        AND (p.id IS NULL OR p.state NOT IN {OPEN} OR NOT p.followed)"""
    ):
        yield f"task {row['id']}: held behind {row['before']}, which is in state {row['state']}"


def _lanes(t: Tables, now: int) -> Iterator[str]:
    """An owner is alive (0: a shared lane has none); a lane without one does not sleep on work that could be leased
    (trap 2)."""
    for row in t.read(
        "SELECT l.id, l.owner FROM lanes l LEFT JOIN sessions s ON s.id = l.owner WHERE l.owner <> 0 AND s.id IS NULL"
    ):
        yield f"lane {row['id']}: owned by {row['owner']}, who is gone"
    # The moment is compared here: a statement that contains it would be planned again at each check.
    for row in t.read(
        f"""SELECT l.id, l.wake_at, count(*) AS n,
          min(CASE WHEN t.state = 1 THEN coalesce(t.due, 0) ELSE 0 END) AS first FROM lanes l
        JOIN {t.tasks} t ON t.lane_id = l.id AND t.state IN (0, 1, 8)
        JOIN jobs j ON j.id = t.job_id AND j.state IN ('queued', 'running') AND j.drain IS NULL
        WHERE coalesce(l.owner, 0) = 0 GROUP BY l.id, l.wake_at"""
    ):
        if row["wake_at"] is None or row["wake_at"] > max(now, row["first"]):
            yield f"lane {row['id']}: asleep with {row['n']} tasks to lease"


def _orphans(t: Tables) -> Iterator[str]:
    """A task without a job is left of a big job that was removed, and about to be cleared; nothing of it is queued."""
    for row in t.read(
        f"""SELECT t.id, t.state FROM {t.tasks} t LEFT JOIN jobs j ON j.id = t.job_id LEFT JOIN past_jobs p
        ON p.id = t.job_id AND p.clearing WHERE j.id IS NULL AND (p.id IS NULL OR t.state IN {OPEN})"""
    ):
        yield f"task {row['id']}: in state {row['state']}, and its job is gone"
    for row in t.read("SELECT p.id FROM past_jobs p JOIN jobs j ON j.id = p.id OR j.public_id = p.public_id"):
        yield f"job {row['id']}: there, and removed"
    for table in ("evidence", "attempts"):
        for row in t.read(f"SELECT x.task_id FROM {table} x LEFT JOIN tasks t ON t.id = x.task_id WHERE t.id IS NULL"):
            yield f"{table}: of task {row['task_id']}, which is gone"
    for row in t.read(
        "SELECT r.id FROM rejected r LEFT JOIN jobs j ON j.id = r.job_id"
        " LEFT JOIN past_jobs p ON p.id = r.job_id AND p.clearing WHERE j.id IS NULL AND p.id IS NULL"
    ):
        yield f"rejected row {row['id']}: its job is gone"


def _spending(t: Tables) -> Iterator[str]:
    for row in t.read(
        f"""SELECT l.id, coalesce((SELECT sum(spent) FROM spending s WHERE s.lane_id = l.id), 0) AS spent,
        coalesce((SELECT sum(cost) FROM {t.tasks} t WHERE t.lane_id = l.id), 0) AS cost FROM lanes l"""
    ):
        if row["spent"] != row["cost"]:
            yield f"lane {row['id']}: spent {row['spent']}, its tasks cost {row['cost']}"


def _rejected(t: Tables) -> Iterator[str]:
    for row in t.read(
        "SELECT j.id, j.rejected, (SELECT count(*) FROM rejected r WHERE r.job_id = j.id) AS n FROM jobs j"
    ):
        if row["rejected"] != row["n"]:
            yield f"job {row['id']}: {row['rejected']} rejected, counted {row['n']}"


def _changes(t: Tables) -> Iterator[str]:
    """Numbers are dense from 1, and the tail row has the last (trap 1)."""
    (row,) = t.read("SELECT count(*) AS n, coalesce(max(id), 0) AS last, coalesce(min(id), 1) AS first FROM changes")
    (tail,) = t.read("SELECT change FROM tail")
    if not (row["n"] == row["last"] == tail["change"] and row["first"] == 1):
        yield f"changes: {row['n']} rows from {row['first']} to {row['last']}, tail {tail['change']}"
    for row in t.read(
        "SELECT kind, key, version FROM changes WHERE kind = 'job' GROUP BY kind, key, version HAVING count(*) > 1"
    ):
        yield f"change {row['kind']} {row['key']}: version {row['version']} twice"


def _records(t: Tables, record: type[Record], *, pruned: bool = False) -> Iterator[str]:
    """One row per natural key; the log contains each, once per version, and ends at the version of the row."""
    table, key, kind = record.table, record.key_field, record.kind
    per_job = record.scope == "job"
    scope = "job_id, " if per_job else ""
    for row in t.read(f"SELECT {key} AS key, count(*) AS n FROM {table} GROUP BY {scope}{key} HAVING count(*) > 1"):
        yield f"{kind} {row['key']}: {row['n']} rows"
    same_job = " AND c.job_id = r.job_id" if per_job else ""
    # The log is read once, not once for each row: no index has to fit this question.
    for row in t.read(
        f"""SELECT r.{key} AS key, r.version, c.told FROM {table} r LEFT JOIN (SELECT {scope}key, max(version) AS told
        FROM changes WHERE kind = '{kind}' GROUP BY {scope}key) c ON c.key = r.{key}{same_job}"""
    ):
        if row["told"] != row["version"] and not ((per_job or pruned) and row["told"] is None):
            yield f"{kind} {row['key']}: version {row['version']}, the log ends at {row['told']}"
    grouped = "key, version, job_id" if per_job else "key, version"
    for row in t.read(
        f"SELECT key, version, count(*) AS n FROM changes WHERE kind = '{kind}' GROUP BY {grouped} HAVING count(*) > 1"
    ):
        yield f"{kind} {row['key']}: version {row['version']} told {row['n']} times"
    if not per_job:
        yield from _last_change(t, record)


def _records_of_jobs(t: Tables, tables: Sequence[str]) -> Iterator[str]:
    """A job counts the rows that it has in all tables of job scope."""
    counts = " + ".join(f"(SELECT count(*) FROM {table} r WHERE r.job_id = j.id)" for table in tables)
    for row in t.read(f"SELECT j.id, j.records, {counts} AS n FROM jobs j"):
        if row["records"] != row["n"]:
            yield f"job {row['id']}: {row['records']} records, counted {row['n']}"


def _last_change(t: Tables, record: type[Record]) -> Iterator[str]:
    """A row of world scope holds the time of its last change, and is gone exactly if that change is `gone`."""
    key, kind = record.key_field, record.kind
    for row in t.read(
        f"""SELECT r.{key} AS key, r.changed_at, r.gone_at, r.gone_reason, c.op, c.at FROM {record.table} r
        JOIN changes c ON c.kind = '{kind}' AND c.key = r.{key} AND c.version = r.version"""
    ):
        if row["changed_at"] != row["at"]:
            yield f"{kind} {row['key']}: changed at {row['changed_at']}, the log says {row['at']}"
        if (row["op"] == "gone") != (row["gone_at"] is not None) or (row["gone_at"] is None) != (
            row["gone_reason"] is None
        ):
            yield f"{kind} {row['key']}: {row['op']} with gone_at {row['gone_at']}, reason {row['gone_reason']}"
