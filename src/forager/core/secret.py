"""Texts that must not be shown, and the port that encrypts them at rest. Nothing here does I/O."""

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


class About(NamedTuple):
    """The place that a sealed text belongs to. Anywhere else it does not open."""

    table: str
    row: str
    field: str


def about_job(job: UUID, name: str) -> About:
    """The place of a job's secret. A secret of one job does not open in another."""
    return About("job_secrets", str(job), name)


class JobSecrets(Protocol):
    """The secrets of jobs that have not ended."""

    async def of(self, job: int, name: str) -> Secret | None:
        """Return a secret of the job with this number in the ledger; None if it has none by that name (any more)."""
        ...


class Seal(Protocol):
    """Encrypts what is kept. The key is never in the database."""

    def seal(self, text: str, about: About) -> str: ...

    def unseal(self, sealed: str, about: About) -> str:
        """Raises `SealBroken`."""
        ...

    def is_current(self, sealed: str) -> bool:
        """Return whether this was sealed with the newest key."""
        ...

    def fingerprints(self, text: str) -> tuple[str, ...]:
        """Keyed hashes of a text, by every key there is, the newest first: equal texts are found without being kept."""
        ...


class SealedTable(Protocol):
    """A table with sealed columns, as a change of keys sees it."""

    async def stale(self) -> int:
        """How many rows are not sealed with the newest key."""
        ...

    async def reseal(self) -> int:
        """Seal every stale row anew, each in a transaction of its own; how many."""
        ...
