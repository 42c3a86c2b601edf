"""The secret of a job at the moment of sending, and what happens if it does not open."""

from forager.core.errors import SealBroken, Unconfigured
from forager.core.secret import JobSecrets, Secret


async def secret_of_job(secrets: JobSecrets | None, job: int, name: str) -> Secret | None:
    """Return a job's secret; None if it has none.

    Raises `Unconfigured`, which pauses the job, if the secret does not open: only a person can restore the key.
    """
    if secrets is None:
        return None
    try:
        return await secrets.of(job, name)
    except SealBroken as error:
        raise Unconfigured(
            f"The job's {name} does not open: {error.message} Restore the key (FORAGER_SECRET_KEY or secret.key) and"
            " resume the job, or cancel it and start another."
        ) from error
