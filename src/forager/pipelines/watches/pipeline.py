"""Watches of pages: the job that a watch begins with, the check of a page, and when it is checked again. Pure."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import Retry
from forager.core.hosts import host_of
from forager.core.pipeline import Aftermath, Pipeline, TaskEnd, app_step
from forager.core.recheck import recheck
from forager.core.states import TaskState
from forager.core.table import Effect
from forager.core.task import Plan, Task
from forager.pipelines.watches.records import PageWatch, WatchedPage

NAME = "watches"
TIMEOUT = 30.0
RETRY = Retry(2, first=10.0, cap=120.0)
REMOVED, PAUSED = "removed", "paused"
REASONS = frozenset({REMOVED, PAUSED, "not_found", "refused", "not_a_page"})


class WatchJob(BaseModel):
    """The check of one watch, now."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watch: str = Field(min_length=1, max_length=100, description="Name of the watch.")
    url: str = Field(default="https://localhost/", max_length=2_048, description="Filled in: its address.")


class CheckPage(Task):
    """One check of a watched page."""

    kind: ClassVar[str] = "watches.check"

    watch: str
    url: str

    def key(self) -> str:
        return self.watch

    def lane(self) -> str:
        return host_of(self.url)


def plan(job: WatchJob) -> Iterator[Plan]:
    yield Plan(CheckPage(watch=job.watch, url=job.url))


def check_again(page: WatchedPage) -> Plan | None:
    """Return the next check of a watched page."""
    return Plan(CheckPage(watch=page.watch, url=page.url))


def check_ended(task: CheckPage, end: TaskEnd) -> Aftermath | None:
    """After a page could not be read, store the reason in its watch, and repeat the check after the usual time."""
    if end.state is TaskState.COMPLETED or end.reason in (REMOVED, PAUSED):
        return None
    error = (end.error or end.reason or "the check was given up")[:500]
    # A page that was never read has no record yet, so the row of its watch has the failure as well.
    return Aftermath(
        effects=[Effect(PageWatch, {"name": task.watch}, set={"failed_at": end.at, "error": error})],
        updates=[WatchedPage(watch=task.watch, url=task.url, failed_at=end.at, error=error)],
    )


def build() -> Pipeline:
    return Pipeline(
        name=NAME,
        params=WatchJob,
        plan=plan,
        steps=(app_step(CheckPage, timeout=TIMEOUT + 60.0, retry=RETRY, on_end=check_ended),),
        records=(WatchedPage,),
        tables=(PageWatch,),
        reasons=REASONS,
        rechecks=(recheck(WatchedPage, due="next_check_at", task=check_again, name="watched_pages"),),
    )
