"""Writes a job back as a mirror shows it: its row, its tasks in their states, its records. One transaction."""

from collections.abc import Mapping

from forager.core.restored import LastNumbers, RestoredJob
from forager.core.states import TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import write_changes
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.counters import write_counters
from forager.ledger.postgres.flows import add_flows
from forager.ledger.postgres.lanes import wake
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.restoring import (
    JOB_COLUMNS,
    KEPT_COLUMNS,
    TASK_COLUMNS,
    job_row,
    number_is_taken,
    record_row,
    task_rows,
)

_GO_ON_FROM = "SELECT setval('{0}', greatest($1, (SELECT last_value FROM {0})))"


async def restore(db: Db, catalog: Catalog, job: RestoredJob, lanes: Mapping[int, int], last: LastNumbers) -> bool:
    """Write a job. Returns False, and changes nothing, if it is there already. Raises `Conflict` if its number is
    another job's."""
    if await db.fetchval("SELECT 1 FROM jobs WHERE public_id = $1", str(job.id)):
        return False
    if await db.fetchval("SELECT 1 FROM jobs WHERE id = $1", job.number):
        raise number_is_taken(job)
    for sequence, number in (("jobs_id_seq", last.job), ("tasks_id_seq", last.task), ("sessions_id_seq", last.claim)):
        if number:
            await db.execute(_GO_ON_FROM.format(sequence), number)
    marks = ", ".join(f"${n}" for n in range(1, len(JOB_COLUMNS) + 1))
    await db.execute(f"INSERT INTO jobs ({', '.join(JOB_COLUMNS)}) VALUES ({marks})", *job_row(job))
    await _write_tasks(db, job, lanes)
    await _write_records(db, catalog, job, last)
    now = await db.fetchval(f"SELECT {NOW}")
    deltas = Deltas()
    if not job.is_finished:
        ready = {lanes[task.number] for task in job.tasks if task.state is TaskState.READY}
        await add_flows(db, {(lane, job.number) for lane in ready})
        await wake(db, dict.fromkeys(ready, now))
        deltas.add(job.number)  # it ends here if the mirror shows the ends of all its tasks and not its own
    ended = await write_counters(db, deltas, now)
    await db.execute("UPDATE tail SET change = greatest(change, $1)", last.change)
    await write_changes(db, ended, now)
    return True


async def _write_tasks(db: Db, job: RestoredJob, lanes: Mapping[int, int]) -> None:
    await db.copy_records_to_table("tasks", columns=TASK_COLUMNS, records=task_rows(job, lanes))
    queued = [
        (task.number, lanes[task.number], job.number, task.rank, int(task.state)) for task in job.tasks if task.is_open
    ]
    columns = ("task_id", "lane_id", "job_id", "rank", "state")
    await db.copy_records_to_table("queue", columns=columns, records=queued)
    dead = [(task.number, task.ended_at or 0) for task in job.tasks if task.state is TaskState.FAILED]
    await db.copy_records_to_table("dead", columns=("task_id", "ended_at"), records=dead)


async def _write_records(db: Db, catalog: Catalog, job: RestoredJob, last: LastNumbers) -> None:
    for kind in sorted({each.record.kind for each in job.records}):
        table = catalog.records[kind]
        own = [each for each in job.records if each.record.kind == kind]
        names = (*KEPT_COLUMNS, *table.fields)
        await db.copy_records_to_table(
            table.name, columns=names, records=[record_row(table, job.number, each) for each in own]
        )
        highest = max(last.records.get(kind, 0), *(each.number for each in own))
        await db.execute(_GO_ON_FROM.format(f"{table.name}_id_seq"), highest)
        aliases = {alias: each.record.key() for each in own for alias in each.aliases}
        if aliases and table.record.identity:
            await db.execute(
                "INSERT INTO aliases (identity, alias, key) SELECT $1, x.alias, x.key"
                " FROM unnest($2::text[], $3::text[]) AS x(alias, key) ON CONFLICT (identity, alias) DO NOTHING",
                table.record.identity,
                list(aliases),
                list(aliases.values()),
            )
