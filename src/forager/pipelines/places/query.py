"""The one kind of task that places has: one page of results for a keyword in a ZIP."""

from typing import ClassVar

from forager.core.outcome import Skip
from forager.core.task import Task

LANE = "serper"
EARLY_EXIT = "early_exit"
"""The reason of pages that are not worth a credit, because the one before them was short."""


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
        """What is asked upstream (PL-3)."""
        return f"{self.zip} {self.keyword}"

    def previous(self) -> str | None:
        """The key of the page before this one, which must end well first."""
        return f"{self.zip}/{self.page - 1}" if self.page > 1 else None

    def later_pages(self, because: str) -> tuple[Skip, ...]:
        """The rest of this ZIP, not worth a credit. `because` is what each of them says as its error."""
        return tuple(Skip(f"{self.zip}/{page}", EARLY_EXIT, because) for page in range(self.page + 1, self.pages + 1))
