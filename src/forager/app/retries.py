"""Running failed tasks again. The secrets of a job are deleted when it ends, so a retry after that must bring them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from forager.core.errors import FieldError, Rejected
from forager.core.ledger import Ledger
from forager.core.pipeline import Pipeline
from forager.core.secret import Secret
from forager.kit.service import Reports
from forager.ledger.side_tables.job_secrets import JobSecretTable


@dataclass(frozen=True, slots=True)
class Retries:
    ledger: Ledger
    reports: Reports
    pipelines: Mapping[str, Pipeline]
    job_secrets: JobSecretTable

    async def job(self, job: UUID, secrets: Mapping[str, Secret]) -> int:
        """Requeue a job's failed tasks and store the secrets that it needs again. Returns how many were requeued.

        Raises `NotFound`, and `Rejected` if the job has ended and a secret that it needs is not among these.
        """
        await self._require(job, secrets)
        sealed = self.job_secrets.sealed(job, secrets)
        queued = await self.ledger.retry(job, secrets=sealed)
        await self.job_secrets.reseal_job(job, sealed)
        return queued

    async def task(self, task: UUID) -> int:
        """Requeue one failed task, and those that were skipped because of it. Raises as `job` does."""
        await self._require((await self.reports.task(task)).job, ())
        return await self.ledger.retry_tasks([task])

    async def is_possible(self, pipeline: str, job: UUID) -> bool:
        """Return whether tasks of this job can be retried without a secret."""
        known = self.pipelines.get(pipeline)
        return known is None or not known.secrets or (await self.reports.job(job)).finished_at is None

    async def _require(self, job: UUID, given: Collection[str]) -> None:
        report = await self.reports.job(job)
        pipeline = self.pipelines.get(report.pipeline)
        if report.finished_at is not None and report.failed and pipeline is not None:
            require_secrets(pipeline, given, job)


def require_secrets(pipeline: Pipeline, given: Collection[str], job: UUID | None = None) -> None:
    """Raise `Rejected`, with the request that brings it, if a secret is missing that a new job, or the retry of this
    ended one, needs. Without it, its tasks could only fail."""
    for secret in pipeline.secrets:
        if secret.name not in given:
            what = f"A {pipeline.name} job" if job is None else f"Job {job} has ended, and its retry"
            where = secret.submit if job is None else secret.retry.format(job_id=job)
            raise Rejected(
                f"{what} needs a secret, {secret.name}. Send it: {where}",
                fields=[FieldError(secret.name, "is required")],
            )
