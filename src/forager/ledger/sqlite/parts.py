"""Receives a job in parts, each in one transaction. Nothing of it can be leased before the last part."""

import sqlite3
from uuid import UUID

import orjson

from forager.core.errors import NotFound
from forager.core.faults import Faults
from forager.core.ledger import NewJob, Received
from forager.core.states import JobState
from forager.ledger.shared.job_creation import sent_whole
from forager.ledger.shared.plan_encoding import Part
from forager.ledger.sqlite.submit import begin_planning, end_planning, find_repeat, write_chunk
from forager.ledger.sqlite.writer_state import Memory

# One search of the unique index for each task of the part, not a scan of the job.
_LACKING = """
SELECT 1 FROM json_each(?2) g WHERE NOT EXISTS (
  SELECT 1 FROM tasks WHERE job_id = ?1 AND kind = g.value ->> 0 AND key = g.value ->> 1)
LIMIT 1
"""


def open_job(db: sqlite3.Connection, memory: Memory, job: NewJob) -> Received:
    repeat = find_repeat(db, job, memory.now_ms())
    if repeat is not None:
        return Received(UUID(repeat.public_id), repeat.total, is_open=repeat.being_written)
    _, public_id = begin_planning(db, memory, job)
    return Received(public_id, 0, is_open=True, created=True)


def add_part(db: sqlite3.Connection, memory: Memory, part: Part, faults: Faults) -> Received:
    row = db.execute("SELECT id, state, total, turn FROM jobs WHERE public_id = ?", (str(part.job),)).fetchone()
    if row is None:
        raise NotFound(f"There is no job {part.job}.")
    number, state, total, turn = row
    if state != JobState.PLANNING:
        if db.execute(_LACKING, (number, _names(part))).fetchone():
            raise sent_whole(part.job, total)
        return Received(part.job, total, is_open=False)
    total += write_chunk(db, memory, number, turn, part.missing(total), faults)
    db.execute("UPDATE jobs SET total = ?1, queued = ?1 - skipped WHERE id = ?2", (total, number))
    if not part.more:
        end_planning(db, memory, number, part.job, total)
    return Received(part.job, total, is_open=part.more)


def _names(part: Part) -> str:
    return orjson.dumps([(plan.kind, plan.key) for plan in part.plans]).decode()
