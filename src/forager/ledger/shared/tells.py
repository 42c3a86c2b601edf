"""Tasks in the change log: a row for every task that enters or leaves a state in its pipeline's `tells`.

The row is written in the transaction of the state, so that a sink learns of every dead letter exactly once, also after
kill -9. Pure; each ledger reads the tasks and numbers the rows.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from forager.core.ids import task_uuid
from forager.core.states import ENDS, TaskState
from forager.kit.queries import task_body
from forager.ledger.catalog import Catalog
from forager.ledger.shared.changelog import NewChange

KIND = "task"
TOLD_TASK = "id, job_id, kind, key, body, state, reason, error_type, error, attempt"


class ToldTask(NamedTuple):
    """A row of `tasks`, with the columns of `TOLD_TASK`."""

    id: int
    job_id: int
    kind: str
    key: str
    body: bytes
    state: int
    reason: str | None
    error_type: str | None
    error: str | None
    attempt: int


def worth_telling(catalog: Catalog, told: Mapping[int, TaskState], rows: Iterable[ToldTask]) -> dict[str, ToldTask]:
    """Those of the tasks whose own pipeline tells the state by which they were noted, by their public ids, under which
    the log knows them.

    What has ended comes first, the last number first: a reader that stops in the middle of a transaction has then seen
    the skipped followers of a task before the end that skipped them. Others are in the order of their numbers.
    """
    wanted = (row for row in rows if told[row.id] in catalog.tells.get(row.kind, ()))
    in_order = sorted(wanted, key=lambda row: (0, -row.id) if row.state in ENDS else (1, row.id))
    return {str(task_uuid(row.job_id, row.id)): row for row in in_order}


def task_change(name: str, row: ToldTask, version: int) -> NewChange:
    """The row of the log for a task in its present state, with everything that is needed to act on it. `name`: its
    public id."""
    state = TaskState(row.state).public()
    about = {
        "task_id": name,
        "kind": row.kind,
        "key": row.key,
        "state": state,
        "reason": row.reason,
        "error_type": row.error_type,
        "error": row.error,
        "attempts": row.attempt,
        "input": task_body(bytes(row.body)),
    }
    known = {name: value for name, value in about.items() if value is not None}
    return NewChange(KIND, name, state, version, row.job_id, orjson.dumps(known))
