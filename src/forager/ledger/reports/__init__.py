"""The generic reports: jobs, tasks, records, lanes. Read only, paged by cursor, and no query scans history."""

from forager.kit.queries import MOST, Page
from forager.kit.reports import ChangeReport, EvidenceReport, JobReport, TaskDetail, TaskReport
from forager.ledger.reports.jobs import Why
from forager.ledger.reports.models import (
    AttemptReport,
    DeadLetter,
    DeadLetterDetail,
    DeadReason,
    Health,
    LaneReport,
    PipelineLoad,
    QueuedTask,
    QueueLoad,
    RecordKind,
    SessionReport,
    Spending,
)
from forager.ledger.reports.reports import Reports

__all__ = [
    "MOST",
    "AttemptReport",
    "ChangeReport",
    "DeadLetter",
    "DeadLetterDetail",
    "DeadReason",
    "EvidenceReport",
    "Health",
    "JobReport",
    "LaneReport",
    "Page",
    "PipelineLoad",
    "QueueLoad",
    "QueuedTask",
    "RecordKind",
    "Reports",
    "SessionReport",
    "Spending",
    "TaskDetail",
    "TaskReport",
    "Why",
]
