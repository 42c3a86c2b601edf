"""Converts rows to reports: milliseconds to times, numbers to public ids, internal states to public ones."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from forager.core.ids import claim_text, task_uuid
from forager.core.states import JobState, TaskState
from forager.kit.queries import Row, at, loads, task_body
from forager.kit.reports import ChangeReport, EvidenceReport, JobReport

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
    """The fields that every kind of task report has."""
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
    """The page that a task's input names, if it names one."""
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


def change_report(row: Row) -> ChangeReport:
    job = row["public_id"]
    return ChangeReport(
        id=row["id"],
        kind=row["kind"],
        key=row["key"],
        op=row["op"],
        version=row["version"],
        job=UUID(job) if job else None,
        at=datetime.fromtimestamp(row["at"] / 1000, UTC),
        body=loads(row["body"]),
    )
