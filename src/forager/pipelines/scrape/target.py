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
    digits: int = 3
    """Digits of the key. All keys of a job have the same number, so that they sort in the order of the request."""

    def key(self) -> str:
        return f"{self.number:0{self.digits}d}"

    def lane(self) -> str:
        return host_of(self.target_url)
