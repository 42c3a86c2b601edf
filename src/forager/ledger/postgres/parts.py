"""Receives a job in parts, each in one transaction. Nothing of it can be leased before the last part."""

from collections.abc import Mapping
from uuid import UUID

from forager.core.errors import NotFound
from forager.core.faults import Faults
from forager.core.ledger import NewJob, Received
from forager.core.states import JobState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Db, TryAgain
from forager.ledger.postgres.submit import (
    JobRow,
    Repeated,
    begin_planning,
    end_planning,
    find_repeat,
    write_chunk,
)
from forager.ledger.postgres.tasks import not_there
from forager.ledger.shared.job_creation import sent_whole
from forager.ledger.shared.plan_encoding import Part

_BEING_WRITTEN = "SELECT j.public_id, j.total FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key = $1"
_JOB = "SELECT id, public_id, state, total FROM jobs WHERE public_id = $1 FOR UPDATE"


async def open_job(db: Db, job: NewJob) -> Received:
    repeat = await find_repeat(db, job)
    if isinstance(repeat, JobState):
        ((public_id, total),) = await db.fetch(_BEING_WRITTEN, job.idempotency_key)
        return Received(UUID(public_id), total, is_open=True)
    if repeat is not None:
        return Received(repeat.job, repeat.total, is_open=False)
    try:
        begun = await begin_planning(db, job)
    except Repeated:
        raise TryAgain("another process opened the same job") from None
    return Received(UUID(begun.public_id), 0, is_open=True, created=True)


async def add_part(db: Db, part: Part, lanes: Mapping[str, int], catalog: Catalog, faults: Faults) -> Received:
    row = await db.fetchrow(_JOB, str(part.job))
    if row is None:
        raise NotFound(f"There is no job {part.job}.")
    job, total = JobRow(row["id"], row["public_id"]), row["total"]
    if row["state"] != JobState.PLANNING:
        if await not_there(db, [(job.number, plan) for plan in part.plans]):
            raise sent_whole(part.job, total)
        return Received(part.job, total, is_open=False)
    total += await write_chunk(db, job, part.missing(total), lanes, {}, catalog.one_open)
    await db.execute("UPDATE jobs SET total = $2, queued = $2 - skipped WHERE id = $1", job.number, total)
    faults.at("chunk-written")
    if not part.more:
        await end_planning(db, job, total)
    return Received(part.job, total, is_open=part.more)
