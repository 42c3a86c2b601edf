"""What the routes of reviews share: a job for a token, and a job of this pipeline by its id."""

from uuid import UUID

from forager.core.errors import NotFound
from forager.core.ledger import Submitted
from forager.core.secret import Secret
from forager.kit.reports import JobReport
from forager.kit.service import Service
from forager.pipelines.reviews.pipeline import NAME
from forager.pipelines.reviews.steps import TOKEN


async def submit_token(
    service: Service, token: Secret, *, key: str | None = None, until_end: bool = False
) -> Submitted:
    """Create a job for this token. Raises `Busy` if too many jobs wait for their first request."""
    return await service.submit(NAME, {}, key=key, until_end=until_end, secrets={TOKEN: token})


async def review_job(service: Service, job_id: UUID) -> JobReport:
    """Raises `NotFound` if there is no such job, or if it belongs to another pipeline."""
    job = await service.reports.job(job_id)
    if job.pipeline != NAME:
        raise NotFound(f"There is no reviews job {job_id}.")
    return job
