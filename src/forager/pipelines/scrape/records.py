"""The record of the scrape pipeline: the fields of one page, once per task, each with its source."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from forager.core.record import Record


class Result(Record):
    """One page as its extractor read it. Its key is the task's, because the same page may be requested twice."""

    kind: ClassVar[str] = "scrape_result"
    table: ClassVar[str] = "scrape_results"
    key_field: ClassVar[str] = "task_key"
    scope: ClassVar[Literal["world", "job"]] = "job"

    task_key: str
    target_type: str
    target_url: str
    page_url: str
    """URL after redirects."""
    workspace_id: str
    result: dict[str, Any]
    """All wanted fields; one that was not found is null."""
    provenance: dict[str, Any]
    """Source of each field that was found: page, location and confidence."""
    pages: list[str]
    """Every page that was read."""
    rendered: bool
    """By a browser."""
    fetched_at: datetime
