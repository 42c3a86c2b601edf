"""Encodes the frames of an event stream. Pure: a change or a value in, bytes out."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from forager.core.change import Change
from forager.kit.http.event_stream import frame
from forager.ledger.reports import ChangeReport, JobReport
from forager.ledger.shared.counting import COUNTED


@dataclass(frozen=True, slots=True)
class Numbered:
    """A change, encoded once for all readers."""

    id: int
    kind: str
    frame: bytes


def change_frame(change: Change, job: UUID) -> Numbered:
    report = ChangeReport(
        id=change.id,
        kind=change.kind,
        key=change.key,
        op=change.op,
        version=change.version,
        job=job,
        at=datetime.fromtimestamp(change.at / 1000, UTC),
        body=None if change.body is None else dict(change.body),
    )
    return Numbered(change.id, change.kind, frame("change", report, change.id))


def progress_of(job: JobReport) -> dict[str, Any]:
    """Return the job's counters: what a progress bar needs."""
    counters = {name: getattr(job, name) for name in COUNTED}
    times = {"created_at": job.created_at, "started_at": job.started_at, "finished_at": job.finished_at}
    return {"id": job.id, "state": job.state, "reason": job.reason, **counters, **times}
