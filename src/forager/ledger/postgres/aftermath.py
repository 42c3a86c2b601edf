"""What follows from the end of tasks and jobs, and the effects that settlements have on plain tables.

Rows of plain tables are locked after those of jobs and before the tail, in the order of their tables and keys.
"""

from collections.abc import Collection, Iterable, Sequence

import asyncpg

from forager.core.errors import Rejected
from forager.core.table import Effect
from forager.kit.queries import folded
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import write_changes
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.counters import write_counters
from forager.ledger.postgres.names import numbered
from forager.ledger.postgres.tells import told_changes
from forager.ledger.postgres.unseen import update_unseen
from forager.ledger.shared.aftermath import (
    ENDED_JOB,
    ENDED_TASK,
    EndedJob,
    EndedTask,
    after_jobs,
    after_tasks,
    log_refused,
    refuse_foreign,
)
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.unseen import Unseen

_TASKS = f"SELECT {ENDED_TASK} FROM tasks WHERE id = ANY($1::bigint[]) AND kind = ANY($2::text[]) ORDER BY id"
_JOBS = f"SELECT {ENDED_JOB} FROM jobs WHERE id = ANY($1::bigint[]) AND pipeline = ANY($2::text[]) ORDER BY id"
_REFUSED = (Rejected, asyncpg.IntegrityConstraintViolationError, asyncpg.DataError, ValueError)


async def after_ends(db: Db, catalog: Catalog, deltas: Deltas, now: int) -> tuple[list[NewChange], list[Effect]]:
    """Run the hooks of the tasks that ended, and write their updates of records. Returns changes, those of the tasks
    themselves included, and effects."""
    told = await told_changes(db, catalog, deltas)
    if not deltas.ends:
        return told, []
    rows = await db.fetch(_TASKS, sorted(deltas.ends), [*catalog.on_end])
    followed = after_tasks(catalog, [EndedTask(*row) for row in rows], now)
    unseen = [Unseen(job, record, None) for job, aftermath in followed for record in aftermath.updates]
    changes = await update_unseen(db, catalog, unseen, now) if unseen else []
    return [*changes, *told], [effect for _, aftermath in followed for effect in aftermath.effects]


async def close(
    db: Db,
    catalog: Catalog,
    deltas: Deltas,
    now: int,
    *,
    leased: Collection[int] = (),
    changes: Sequence[NewChange] = (),
    effects: Sequence[Effect] = (),
    hooked: Sequence[Effect] = (),
) -> None:
    """The last part of a transaction: the jobs' rows, plain tables, the change log, in this order.

    `leased`: jobs that have tasks running now. `effects`: those of settlements. `hooked`: those of hooks, which must
    never be the reason why the transaction fails.
    """
    ended = await write_counters(db, deltas, now, leased=leased)
    if effects:
        refuse_foreign(catalog, effects)
        await _apply(db, effects)
    if ended and catalog.on_job_end:
        rows = await db.fetch(_JOBS, [change.job_id for change in ended], [*catalog.on_job_end])
        hooked = [*hooked, *after_jobs(catalog, [EndedJob(*row) for row in rows], now)]
    if hooked:
        await _apply_or_log(db, catalog, hooked)
    await write_changes(db, [*changes, *ended], now)


async def _apply(db: Db, effects: Iterable[Effect]) -> None:
    for write in folded(effects):
        sql, values = numbered(write.sql, write.values)
        await db.execute(sql, *values)


async def _apply_or_log(db: Db, catalog: Catalog, effects: Sequence[Effect]) -> None:
    """All of them; if the store refuses one, the others one by one."""
    try:
        refuse_foreign(catalog, effects)
        async with db.transaction():  # a savepoint
            await _apply(db, effects)
    except _REFUSED:
        for effect in effects:
            try:
                refuse_foreign(catalog, [effect])
                async with db.transaction():
                    await _apply(db, [effect])
            except _REFUSED as error:
                log_refused(effect, error)
