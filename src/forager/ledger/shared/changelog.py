"""A row of the change log before it has its number: each ledger numbers it in its own way."""

from typing import Any, NamedTuple

import orjson

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
