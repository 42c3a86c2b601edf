"""The one kind of task that places has: one page of results for a keyword in a ZIP."""

from typing import ClassVar

from forager.core.outcome import Skip
from forager.core.task import Task

LANE = "serper"
EARLY_EXIT = "early_exit"
"""Reason of pages that are skipped because the one before was short."""


class Query(Task):
    """Carries the job's keyword and number of pages, because a step sees its task and nothing else."""

    kind: ClassVar[str] = "places.query"

    keyword: str
    zip: str
    page: int
    pages: int
    state: str | None = None

    def key(self) -> str:
        return f"{self.zip}/{self.page}"

    def lane(self) -> str:
        return LANE

    @property
    def text(self) -> str:
        """The query text for the upstream (PL-3)."""
        return f"{self.zip} {self.keyword}"

    def previous(self) -> str | None:
        """Return the key of the previous page, which must be completed first."""
        return f"{self.zip}/{self.page - 1}" if self.page > 1 else None

    def later_pages(self, because: str) -> tuple[Skip, ...]:
        """Return skips for the remaining pages of this ZIP. `because` is their error message."""
        return tuple(Skip(f"{self.zip}/{page}", EARLY_EXIT, because) for page in range(self.page + 1, self.pages + 1))
