"""Job numbers: the internal ids by which the ledger's tables refer to jobs. Outside the ledger, only the public id is
used."""

from uuid import UUID

from forager.core.database import Database
from forager.core.errors import NotFound

JOB_NAMES = "LEFT JOIN jobs j ON j.id = w.job_id LEFT JOIN past_jobs p ON p.id = w.job_id"
"""Joins the public ids of jobs to rows `w` that may outlive them: records and changes."""
JOB_NAME = "coalesce(j.public_id, p.public_id) AS public_id"
"""The column that this join adds."""


async def job_number(db: Database, job: UUID, *, past: bool = False) -> int:
    """Return the value of `job_id` in the rows of this job. Raises `NotFound` if there is no such job.

    With `past`, also find a job that retention has removed; its records may still exist.
    """
    sql = "SELECT id FROM jobs WHERE public_id = :job"
    if past:
        sql += " UNION ALL SELECT id FROM past_jobs WHERE public_id = :job"
    rows = await db.fetch(sql, {"job": str(job)})
    if not rows:
        raise no_job(job)
    return int(rows[0]["id"])


def no_job(job: UUID) -> NotFound:
    return NotFound(f"There is no job {job}. See `forager jobs list`.")
