"""The secrets of jobs, on either database: opened for the moment of sending, sealed again when keys change.

The ledger writes them with the job and deletes them with its end; nothing here outlives a job.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from forager.core.database import Database, Row
from forager.core.secret import HEAD, Seal, SealedFor, Secret, about_job, key_id_of

_ALL = "SELECT s.job_id, s.name, s.sealed, j.public_id FROM job_secrets s JOIN jobs j ON j.id = s.job_id"


class JobSecretTable:
    """Implements `core.secret.JobSecrets` and `core.secret.SealedTable`."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    def sealed(self, job: UUID, secrets: Mapping[str, Secret]) -> dict[str, str]:
        """Seal these texts for a job that is about to be created or retried."""
        return {name: self._seal.seal(text.reveal(), about_job(job, name)) for name, text in secrets.items()}

    def fingerprint(self, secret: Secret) -> str:
        """Return a keyed hash of a secret, by the newest key."""
        return self._seal.fingerprints(secret.reveal())[0]

    async def of(self, job: int, name: str) -> Secret | None:
        rows = await self._database.fetch(
            f"{_ALL} WHERE s.job_id = :job AND s.name = :name", {"job": job, "name": name}
        )
        return Secret(self._seal.unseal(rows[0]["sealed"], _about(rows[0]))) if rows else None

    async def reseal_job(self, job: UUID, written: Mapping[str, str]) -> None:
        """Seal a job's secrets again if the keys have changed while `written`, the sealed texts, were being stored.

        A rotation that begins after this look finds the row by itself, because the row is committed.
        """
        if not all(map(self._seal.is_current, written.values())):
            await self._reseal(await self._database.fetch(f"{_ALL} WHERE j.public_id = :job", {"job": str(job)}))

    async def stale(self) -> int:
        return sum(not self._seal.is_current(row["sealed"]) for row in await self._database.fetch(_ALL))

    async def key_ids(self) -> frozenset[str]:
        rows = await self._database.fetch(f"SELECT DISTINCT substr(sealed, 1, {HEAD}) AS head FROM job_secrets")
        return frozenset(key_id_of(row["head"]) for row in rows)

    async def reseal(self) -> int:
        return await self._reseal(await self._database.fetch(_ALL))

    async def _reseal(self, rows: Sequence[Row]) -> int:
        stale = [row for row in rows if not self._seal.is_current(row["sealed"])]
        for row in stale:
            about = _about(row)
            # Only if it is still the same text: the job may have ended, or been retried with another secret.
            await self._database.write(
                "UPDATE job_secrets SET sealed = :new WHERE job_id = :job AND name = :name AND sealed = :old",
                {
                    "new": self._seal.seal(self._seal.unseal(row["sealed"], about), about),
                    "job": row["job_id"],
                    "name": row["name"],
                    "old": row["sealed"],
                },
            )
        return len(stale)


def _about(row: Row) -> SealedFor:
    return about_job(UUID(row["public_id"]), row["name"])
