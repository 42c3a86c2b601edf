"""Writes a job back as a mirror shows it: its row, its tasks in their states, its records. One transaction."""

import sqlite3
from collections.abc import Mapping

from forager.core.restored import LastNumbers, RestoredJob
from forager.core.states import TaskState
from forager.ledger.shared.restoring import (
    JOB_COLUMNS,
    KEPT_COLUMNS,
    TASK_COLUMNS,
    job_row,
    number_is_taken,
    record_row,
    task_rows,
)
from forager.ledger.sqlite.bulk import insert_many
from forager.ledger.sqlite.counters import finish_jobs
from forager.ledger.sqlite.writer_state import Memory, offer

_GO_ON_FROM = """
UPDATE tail SET change = max(change, ?), claim = max(claim, ?), last_job = max(last_job, ?),
  last_task = max(last_task, ?)
"""


def restore(
    db: sqlite3.Connection, memory: Memory, job: RestoredJob, lanes: Mapping[int, str], last: LastNumbers
) -> bool:
    """Write a job. Returns False, and changes nothing, if it is there already. Raises `Conflict` if its number is
    another job's."""
    if db.execute("SELECT 1 FROM jobs WHERE public_id = ?", (str(job.id),)).fetchone():
        return False
    if db.execute("SELECT 1 FROM jobs WHERE id = ?", (job.number,)).fetchone():
        raise number_is_taken(job)
    db.execute(_GO_ON_FROM, (last.change, last.claim, last.job, last.task))
    memory.next_job, memory.next_task = max(memory.next_job, last.job + 1), max(memory.next_task, last.task + 1)
    kinds = {task.number: task.kind for task in job.tasks}
    numbers = {task: memory.lane_id(db, name, kinds[task]) for task, name in lanes.items()}
    insert_many(db, f"jobs ({', '.join(JOB_COLUMNS)})", [job_row(job)])
    if job.tasks:
        columns = ", ".join(f'"{name}"' for name in TASK_COLUMNS)
        insert_many(db, f"tasks ({columns})", task_rows(job, numbers))
    _write_records(db, memory, job)
    if not job.is_finished:
        _offer(db, memory, job, numbers)
    return True


def _write_records(db: sqlite3.Connection, memory: Memory, job: RestoredJob) -> None:
    for kind in sorted({each.record.kind for each in job.records}):
        table = memory.catalog.records[kind]
        own = [each for each in job.records if each.record.kind == kind]
        columns = ", ".join(f'"{name}"' for name in (*KEPT_COLUMNS, *table.fields))
        insert_many(db, f"{table.name} ({columns})", [record_row(table, job.number, each) for each in own])
        identity = table.record.identity
        aliases = [(identity, alias, each.record.key()) for each in own for alias in each.aliases] if identity else []
        if aliases and identity:
            insert_many(db, "aliases (identity, alias, key)", aliases, "ON CONFLICT (identity, alias) DO NOTHING")
            memory.aliased.add(identity)


def _offer(db: sqlite3.Connection, memory: Memory, job: RestoredJob, lanes: Mapping[int, int]) -> None:
    """Let the job's ready tasks be leased, unless it is paused; end what is to be drained; end a job without work."""
    if job.state == "paused" or job.drain is not None:
        memory.flows.park(job.number)
    if job.drain is not None:
        memory.flows.drain(job.number)
    for lane in sorted({lanes[task.number] for task in job.tasks if task.state is TaskState.READY}):
        offer(db, memory, lane, job.number, job.turn)
    finish_jobs(db, memory.flows, [job.number], memory.now_ms())
