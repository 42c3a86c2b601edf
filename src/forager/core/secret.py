"""Secret texts, and the port that encrypts them at rest. Nothing here does I/O."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that prints as `***` wherever it is shown. `reveal` is for the moment of sending, and for nothing else."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not pickled: it would leave the process in plain text.")


class SealedFor(NamedTuple):
    """The location to which a sealed text is bound. It cannot be decrypted elsewhere."""

    table: str
    row: str
    field: str


def about_job(job: UUID, name: str) -> SealedFor:
    """Return the location of a job's secret. A secret of one job cannot be decrypted in another."""
    return SealedFor("job_secrets", str(job), name)


class JobSecrets(Protocol):
    """The secrets of jobs that have not ended."""

    async def of(self, job: int, name: str) -> Secret | None:
        """Return a secret of the job with this number in the ledger; None if the job has none of that name, or no
        longer."""
        ...


HEAD = 11
"""Characters of a sealed text that name its version and its key: `s1.`, and eight for the key."""


def key_id_of(sealed: str) -> str:
    """Return the id of the key that a text was sealed with: the second of its three parts. An incomplete text is
    enough, as long as it has the first two."""
    return sealed.split(".")[1]


class Seal(Protocol):
    """Encrypts texts at rest. The key is never in the database."""

    def seal(self, text: str, about: SealedFor) -> str: ...

    def unseal(self, sealed: str, about: SealedFor) -> str:
        """Raises `SealBroken`."""
        ...

    def is_current(self, sealed: str) -> bool:
        """Return whether this was sealed with the newest key."""
        ...

    def missing(self, key_ids: Collection[str]) -> set[str]:
        """Return those of these keys that are not available here."""
        ...

    def fingerprints(self, text: str) -> tuple[str, ...]:
        """Return keyed hashes of a text with every key, newest first, so that equal texts can be found without storing
        them."""
        ...


class SealedTable(Protocol):
    """A table with sealed columns, for key rotation."""

    async def stale(self) -> int:
        """Return how many rows are not sealed with the newest key."""
        ...

    async def reseal(self) -> int:
        """Seal every stale row with the newest key, each in its own transaction. Returns how many."""
        ...


class Vault(Protocol):
    """Secret texts of the installation that users hand over while it runs: addresses of channels, sessions of sites."""

    async def put(self, of: str, name: str, text: Secret) -> None:
        """Seal and store a text, in place of an earlier one."""
        ...

    async def get(self, of: str, name: str) -> Secret | None:
        """Return a text for the moment of its use; None if there is none. Raises `SealBroken`."""
        ...

    async def remove(self, of: str, name: str) -> None: ...


class KeyUser(Protocol):
    """A table with sealed columns, for the check that all of its keys are available."""

    async def key_ids(self) -> frozenset[str]:
        """Return the ids of the keys that its rows are sealed with."""
        ...
