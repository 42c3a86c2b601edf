"""The generic reports: jobs, tasks, records, lanes. Read only, paged by cursor, and no query scans history."""

from forager.ledger.reports.jobs import AttemptReport, DeadLetter, DeadLetterDetail, DeadReason, QueuedTask, Why
from forager.ledger.reports.lanes import Health, LaneReport, PipelineLoad, QueueLoad, SessionReport, Spending
from forager.ledger.reports.records import RecordKind
from forager.ledger.reports.reports import LedgerReports
from forager.sdk.queries import MOST, QueryPage
from forager.sdk.reports import ChangeReport, EvidenceReport, JobReport, TaskDetail, TaskReport

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
    "LedgerReports",
    "PipelineLoad",
    "QueryPage",
    "QueueLoad",
    "QueuedTask",
    "RecordKind",
    "SessionReport",
    "Spending",
    "TaskDetail",
    "TaskReport",
    "Why",
]
