"""Renders jobs and their tasks as tables. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from forager.cli.feature_commands import words_of
from forager.sdk.cli import render
from forager.sdk.cli.client import Api
from forager.sdk.cli.invocation import short_job, short_task
from forager.sdk.cli.progress import done
from forager.sdk.cli.render import assumed

_COUNTERS = ("queued", "running", "completed", "failed", "skipped", "cancelled")
_OTHER_COLUMNS = 53
"""Width of all columns in the list of jobs except the request."""


def listed(jobs: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per job; a waiting job shows the reason below its request."""
    columns = ("job", "pipeline", "state", "request", "progress", "age")
    rows = render.table(*columns, right=("progress", "age"), fold=("request",))
    for column, width in zip(rows.columns, (8, 8, 9, 9, 8, 6), strict=True):
        column.no_wrap, column.min_width = column.header not in ("state", "request"), width
    rows.columns[2].max_width = 9  # `partially completed` takes two lines
    # The request is the only column of unlimited length, so it gets the width that the others leave.
    room = rows.columns[3].max_width = max(9, render.out().width - _OTHER_COLUMNS)
    now = datetime.now(UTC)
    for job in jobs:
        created = render.when(job["created_at"]) or now
        rows.add_row(
            short_job(job["id"]),
            render.plain(job["pipeline"]),
            render.state(job["state"]),
            _request(job, room),
            f"{100 * done(job) / job['total']:.0f}%" if job["total"] else "-",
            render.age((now - created).total_seconds()),
        )
    return rows


def shown(job: Mapping[str, Any]) -> Table:
    """Return a table with all details of one job."""
    counters = [f"{render.count(job[name])} {name}" for name in _COUNTERS if job[name]]
    estimate = job["estimate"] or {}
    expected = estimate.get("expected_credits")
    waiting = job.get("waiting")
    return render.facts(
        [
            ("job", str(job["id"])),
            ("pipeline", job["pipeline"]),
            ("state", render.state(job["state"])),
            ("reason", render.plain(job["reason"]) if job["reason"] else None),
            ("waiting", render.plain(waiting["message"]) if waiting else None),
            ("request", render.plain(words_of(job["pipeline"]).request(job["params"]))),
            ("params", render.plain(_params(job["params"]))),
            ("tasks", f"{render.count(job['total'])}: {', '.join(counters)}" if counters else "0"),
            ("failures", _failures(job)),
            ("retries", render.count(job["retries"])),
            ("records", _records(job)),
            ("rejected", _rejected(job)),
            ("spent", _spent(job)),
            ("estimate", None if expected is None else render.some(expected, "credit")),
            ("schedule", job["schedule"]),
            ("created", render.moment(job["created_at"])),
            ("started", render.moment(job["started_at"])),
            ("finished", render.moment(job["finished_at"])),
        ]
    )


def task_table(listed: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per task and the error of its last attempt."""
    columns = ("task", "what", "lane", "state", "tries", "error")
    rows = render.table(*columns, right=("tries",), fold=("what", "error"))
    for task in listed:
        due = f"; next try {render.moment(task['due_at'])} UTC" if task["due_at"] and task["state"] == "queued" else ""
        rows.add_row(
            short_task(task["id"]),
            render.plain(task["url"] or task["key"]),
            render.plain(task["lane"]),
            render.state(task["state"]),
            str(task["attempts"]),
            render.plain(f"{task['error']}{due}" if task["error"] else None),
        )
    return rows


def _request(job: Mapping[str, Any], room: int) -> Text:
    """Render the request on one line, with the reason why the job waits wrapped below."""
    request: Text = render.plain(words_of(job["pipeline"]).request(job["params"]))
    request.truncate(room, overflow="ellipsis")
    if waiting := job.get("waiting"):
        request = Text("\n").join([request, Text(waiting["message"], style="yellow")])
    return request


def _params(params: Mapping[str, Any]) -> str:
    """Name the parameters that are set, with nested ones as JSON."""
    import orjson

    given = [
        f"{name} {value if isinstance(value, str) else orjson.dumps(value).decode()}"
        for name, value in params.items()
        if value not in (None, False, [], {})
    ]
    text = ", ".join(given)
    return text if len(text) <= 400 else f"{text[:400]}…"


def _failures(job: Mapping[str, Any]) -> Text | None:
    """Name each reason for which tasks have failed, with the message of one of them."""
    lines = [
        f"{render.count(each['tasks'])} {each['reason'] or 'without a reason'}: {each['error'] or '-'}"
        for each in job.get("failures") or ()
    ]
    return Text("\n").join(map(render.plain, lines)) if lines else None


def _records(job: Mapping[str, Any]) -> str:
    """Count the job's own records, and those of the world that it was the first to see."""
    new = f"{render.count(job['discoveries'])} new"
    return f"{render.count(job['records'])}, {new}" if job["records"] or not job["discoveries"] else new


def _spent(job: Mapping[str, Any]) -> str:
    words = words_of(job["pipeline"])
    text = words.cost(job["spent"])
    if job["max_cost"] is not None:
        text += f" of at most {words.cost(job['max_cost'])}"
    return text + assumed(job)


def _rejected(job: Mapping[str, Any]) -> str | None:
    rows = job["rejected"]
    return f"{render.some(rows, 'row')}: forager jobs rejected {job['id']}" if rows else None


# The log of a job, merged from its history and the ends of its tasks.


MOST_TASKS = 1_000
Entry = dict[str, Any]


async def job_log_entries(api: Api, job: str, limit: int) -> list[Entry]:
    """Return the newest `limit` entries, oldest first, each with `at`, `what`, `task` and `message`."""
    total = (await api.get(f"/jobs/{job}"))["total"]
    history = await api.get(f"/jobs/{job}/history", limit=MOST_TASKS)
    path = f"/jobs/{job}/tasks" if total <= MOST_TASKS else "/dead"
    tasks = await api.get(path, limit=MOST_TASKS, **({} if total <= MOST_TASKS else {"job": job}))
    merged = [_log_of_job(change) for change in history] + [entry for task in tasks if (entry := _of_task(task))]
    return sorted(merged, key=_order)[-limit:]


def job_log_table(shown: Sequence[Entry]) -> Table:
    rows = render.table("time (UTC)", "task", "event", "details", fold=("details",))
    for entry in shown:
        task = short_task(entry["task"]) if entry["task"] else "-"
        rows.add_row(render.moment(entry["at"]), task, render.state(entry["event"]), render.plain(entry["message"]))
    return rows


def _order(entry: Entry) -> tuple[str, int]:
    """Sort key: by time; within a millisecond, a job's creation comes before its tasks and its end after them."""
    return str(entry["at"]), 1 if entry["task"] else 0 if entry["event"] == "created" else 2


def _log_of_job(change: Mapping[str, Any]) -> Entry:
    body = change["body"] or {}
    known = [f"job {change['op']}", body.get("reason")]
    return {"at": change["at"], "event": change["op"], "task": None, "message": ": ".join(filter(None, known))}


def _of_task(task: Mapping[str, Any]) -> Entry | None:
    """Return the entry for a task's end or its last failed attempt; None if the task has not started."""
    moment = task["ended_at"] or task["claimed_at"] or task["due_at"]
    if moment is None or (task["ended_at"] is None and task["error"] is None and task["state"] != "running"):
        return None
    tries = render.some(task["attempts"], "attempt") if task["attempts"] > 1 else ""
    message = "; ".join(filter(None, (task["url"] or task["key"], task["error"], tries)))
    return {"at": moment, "event": task["state"], "task": task["id"], "message": message}
