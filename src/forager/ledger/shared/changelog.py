"""A row of the change log before it has its number: each ledger numbers it in its own way."""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

import orjson

from forager.core.new_job import JobNews, NewJob
from forager.core.record import Record
from forager.core.states import JobState

_news: ContextVar[list[JobNews] | None] = ContextVar("news", default=None)
"""What the transaction that runs in this context has done to jobs so far."""


def collect_news() -> list[JobNews]:
    """Begin a transaction in this context. Returns the list of its news, which count once it is committed. What a
    savepoint takes back must be removed from the list again."""
    news: list[JobNews] = []
    _news.set(news)
    return news


def news_so_far() -> list[JobNews]:
    return _news.get() or []


def note(job: int, op: str, new: dict[str, Any] | None = None) -> None:
    """Note what this transaction does to a job, for the log."""
    if (news := _news.get()) is not None:
        news.append(JobNews(job, op, new))


class NewChange(NamedTuple):
    kind: str
    key: str
    op: str
    version: int
    job_id: int | None
    body: bytes | None = None


def job_change(
    job: int, public_id: str, op: str, state: JobState, version: int, more: dict[str, Any] | None = None
) -> NewChange:
    """Return a change of a job, and note it for the log."""
    note(job, op)
    return NewChange("job", public_id, op, version, job, orjson.dumps({"state": state.value, **(more or {})}))


def job_created(number: int, public_id: str, state: JobState, job: NewJob, total: int) -> NewChange:
    """Return the first change of a job that is created in one transaction."""
    about = {
        "id": number,
        "public_id": public_id,
        "pipeline": job.pipeline,
        "request_id": job.request_id,
        "total": total,
        "max_cost": job.limits.max_cost,
        "schedule": job.schedule,
        "standing": job.standing,
    }
    note(number, "created", about)
    return NewChange("job", public_id, "created", 1, number, orjson.dumps({"state": state.value}))


def row_renamed(
    record: type[Record], weaker: str, stronger: str, job: int, version: int
) -> tuple[NewChange, NewChange]:
    """What the log says when a job's own row of a record takes a stronger key: the weaker key is gone, and the
    stronger is new in that job. `version` is the row's, which stays as it is."""
    moved_to = orjson.dumps({record.key_field: stronger})
    return (
        NewChange(record.kind, weaker, "gone", version + 1, job, moved_to),
        NewChange(record.kind, stronger, "new", version, job),
    )


def then(change: NewChange, ended: Iterable[NewChange]) -> list[NewChange]:
    """A change of a job, and its end if it ends in the same transaction: the end was numbered without the other."""
    return [change, *(end._replace(version=end.version + (end.key == change.key)) for end in ended)]
