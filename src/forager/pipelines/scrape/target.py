"""The one kind of task that scrape has: one page of a job."""

from typing import ClassVar

from forager.core.hosts import host_of
from forager.core.http import Render
from forager.core.task import Task


class Scrape(Task):
    """Identified by its position in the job, so that the same page twice is two tasks."""

    kind: ClassVar[str] = "scrape.page"

    number: int
    target_type: str
    target_url: str
    requested_fields: tuple[str, ...] | None = None
    workspace_id: str
    render: Render = "auto"
    min_confidence: float | None = None

    def key(self) -> str:
        return f"{self.number:03d}"

    def lane(self) -> str:
        return host_of(self.target_url)
