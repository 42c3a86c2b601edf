"""What the weekly audit of the catalogue stores. Pure."""

from datetime import datetime
from typing import Any, ClassVar

from forager.core.table import TableRow


class Audit(TableRow):
    """One audit. The row of a week is inserted before its audit runs, so that one process runs it."""

    table: ClassVar[str] = "audits"
    key: ClassVar[tuple[str, ...]] = ("week",)

    week: str
    """ISO week, such as 2026-W47."""
    started_at: datetime
    finished_at: datetime | None = None
    findings: dict[str, Any] | None = None


def week_of(moment: datetime) -> str:
    """The ISO week of a moment: `2026-W47`."""
    year, week, _ = moment.isocalendar()
    return f"{year}-W{week:02}"
