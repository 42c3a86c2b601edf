"""The generic reports: jobs, tasks, records, lanes. Read only, paged by cursor, and no query scans history."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "AttemptReport": "forager.ledger.reports.jobs",
    "DeadLetter": "forager.ledger.reports.jobs",
    "DeadLetterDetail": "forager.ledger.reports.jobs",
    "DeadReason": "forager.ledger.reports.jobs",
    "QueuedTask": "forager.ledger.reports.jobs",
    "Why": "forager.ledger.reports.jobs",
    "Health": "forager.ledger.reports.lanes",
    "LaneReport": "forager.ledger.reports.lanes",
    "PipelineLoad": "forager.ledger.reports.lanes",
    "QueueLoad": "forager.ledger.reports.lanes",
    "SessionReport": "forager.ledger.reports.lanes",
    "Spending": "forager.ledger.reports.lanes",
    "RecordKind": "forager.ledger.reports.records",
    "LedgerReports": "forager.ledger.reports.reports",
    "MOST": "forager.sdk.queries",
    "QueryPage": "forager.sdk.queries",
    "ChangeReport": "forager.sdk.reports",
    "EvidenceReport": "forager.sdk.reports",
    "JobReport": "forager.sdk.reports",
    "TaskDetail": "forager.sdk.reports",
    "TaskReport": "forager.sdk.reports",
}


def __getattr__(name: str) -> Any:
    """Import a report when it is used: a command that lists jobs needs neither records nor the database library."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
