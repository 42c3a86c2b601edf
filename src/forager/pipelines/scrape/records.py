"""What scrape finds: the fields of one page, once per task, each with where it was found."""

from datetime import datetime
from typing import Any, ClassVar, Literal

from forager.core.record import Record


class Result(Record):
    """One page as its extractor read it. Its key is the task's, since the same page may be asked for twice."""

    kind: ClassVar[str] = "scrape_result"
    table: ClassVar[str] = "scrape_results"
    key_field: ClassVar[str] = "task_key"
    scope: ClassVar[Literal["world", "job"]] = "job"

    task_key: str
    target_type: str
    target_url: str
    page_url: str
    """Where redirects led to."""
    workspace_id: str
    result: dict[str, Any]
    """The wanted fields, all of them: one that was not found is null."""
    provenance: dict[str, Any]
    """Of each field that was found: the page, where on it, and how sure that is."""
    pages: list[str]
    """Every page that was looked at."""
    rendered: bool
    """By a browser."""
    fetched_at: datetime
