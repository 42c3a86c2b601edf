"""Writes the change log with numbers that are dense and in commit order.

Sinks read the log by a cursor: "everything after number n". That is only correct if no change can appear later with a
number up to n. A sequence does not guarantee this: a transaction that draws number 5 and commits after number 6 is
visible would be skipped by every reader that has passed 6, and its change would be lost for ever. So the next number is
in a single row (the tail), which each transaction locks and holds until its commit. This serialises the ends of all
writing transactions, so the row is locked last, in the last statement before the commit; locked earlier, it would also
serialise their work.
"""

from collections.abc import Sequence
from typing import Any

from forager.core.states import JobState
from forager.ledger.postgres.arrays import as_json, document, documents, rows_from
from forager.ledger.postgres.connection import Db
from forager.ledger.shared.changelog import NewChange, job_change

_COLUMNS = NewChange._fields
_WRITE = f"""
WITH t AS (UPDATE tail SET change = change + $7 WHERE one = 1 RETURNING change - $7 AS base)
INSERT INTO changes (id, kind, key, op, version, job_id, at, body)
SELECT t.base + x.o, x.kind, x.key, x.op, x.version::int, x.job_id::bigint, $8, {document("x.body")}
FROM t, {rows_from([(name, name == "body") for name in _COLUMNS])} WITH ORDINALITY AS x({", ".join(_COLUMNS)}, o)
"""


async def write_changes(db: Db, changes: Sequence[NewChange], now: int) -> None:
    """Number and insert changes. Must be the last statement of a transaction, because it locks the tail until the
    commit."""
    if changes:
        *columns, bodies = zip(*changes, strict=True)
        written = [None if body is None else body.decode() for body in bodies]
        await db.execute(_WRITE, *map(as_json, columns), documents(written), len(changes), now)


async def job_says(db: Db, job: int, op: str, more: dict[str, Any] | None = None) -> NewChange:
    """Return a change of a job in its present state. The job's row must be locked, so that versions do not collide."""
    row = await db.fetchrow(
        "SELECT public_id, state, 1 + coalesce((SELECT max(version) FROM changes c WHERE c.kind = 'job'"
        " AND c.key = j.public_id AND c.body IS NOT NULL), 0) AS version FROM jobs j WHERE id = $1",
        job,
    )
    if row is None:
        raise AssertionError(f"job {job} is gone")
    return job_change(job, row["public_id"], op, JobState(row["state"]), row["version"], more)
