"""A row of the change log before it has its number: each ledger numbers it in its own way."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from forager.core.record import Record
from forager.core.states import JobState


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
    return NewChange("job", public_id, op, version, job, orjson.dumps({"state": state.value, **(more or {})}))


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
