"""What people and front doors may read of the ledger. Read only, paged by cursor, and nothing that scans history."""

from forager.kit.queries.page import MOST, Page
from forager.ledger.reports.jobs import Why
from forager.ledger.reports.models import (
    ChangeReport,
    DeadLetter,
    DeadLetterDetail,
    Density,
    EvidenceReport,
    Health,
    JobReport,
    LaneReport,
    PagesSeen,
    PlaceReport,
    QueuedTask,
    ScrapeResultReport,
    ScrapeTaskReport,
    SessionReport,
    SinkReport,
    Spending,
    TaskDetail,
    TaskReport,
)
from forager.ledger.reports.places import PlaceFilter
from forager.ledger.reports.reports import Reports

__all__ = [
    "MOST",
    "ChangeReport",
    "DeadLetter",
    "DeadLetterDetail",
    "Density",
    "EvidenceReport",
    "Health",
    "JobReport",
    "LaneReport",
    "Page",
    "PagesSeen",
    "PlaceFilter",
    "PlaceReport",
    "QueuedTask",
    "Reports",
    "ScrapeResultReport",
    "ScrapeTaskReport",
    "SessionReport",
    "SinkReport",
    "Spending",
    "TaskDetail",
    "TaskReport",
    "Why",
]
