"""The log of a job, merged from its history and the ends of its tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from forager.kit.cli import render
from forager.kit.cli.client import Api
from forager.kit.cli.ids import short_task

MOST_TASKS = 1_000
Entry = dict[str, Any]


async def entries(api: Api, job: str, limit: int) -> list[Entry]:
    """Return the newest `limit` entries, oldest first, each with `at`, `what`, `task` and `message`."""
    total = (await api.get(f"/jobs/{job}"))["total"]
    history = await api.get(f"/jobs/{job}/history", limit=MOST_TASKS)
    path = f"/jobs/{job}/tasks" if total <= MOST_TASKS else "/dead"
    tasks = await api.get(path, limit=MOST_TASKS, **({} if total <= MOST_TASKS else {"job": job}))
    merged = [_of_job(change) for change in history] + [entry for task in tasks if (entry := _of_task(task))]
    return sorted(merged, key=_order)[-limit:]


def table(shown: Sequence[Entry]) -> Table:
    rows = render.table("time (UTC)", "task", "event", "details", fold=("details",))
    for entry in shown:
        task = short_task(entry["task"]) if entry["task"] else "-"
        rows.add_row(render.moment(entry["at"]), task, render.state(entry["event"]), render.plain(entry["message"]))
    return rows


def _order(entry: Entry) -> tuple[str, int]:
    """Sort key: by time; within a millisecond, a job's creation comes before its tasks and its end after them."""
    return str(entry["at"]), 1 if entry["task"] else 0 if entry["event"] == "created" else 2


def _of_job(change: Mapping[str, Any]) -> Entry:
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
