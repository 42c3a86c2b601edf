"""The numbers under which the ledger's tables refer to jobs. Outside the ledger a job has its public id alone."""

from uuid import UUID

from forager.core.database import Database
from forager.core.errors import NotFound


async def job_number(db: Database, job: UUID) -> int:
    """The value of `job_id` in the rows of this job. Raises `NotFound` if there is no such job."""
    rows = await db.fetch("SELECT id FROM jobs WHERE public_id = :job", {"job": str(job)})
    if not rows:
        raise no_job(job)
    return int(rows[0]["id"])


def no_job(job: UUID) -> NotFound:
    return NotFound(f"There is no job {job}. `forager jobs list` shows those there are.")
