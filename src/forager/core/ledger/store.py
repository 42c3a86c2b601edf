"""The ledger as a store: its change log, its clock, its query port."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol
from uuid import UUID

from forager.core.change import Change
from forager.core.database import Database
from forager.core.ledger.queue import JobNews


class LedgerStore(Protocol):
    """Reads changes, reports what became of jobs, and gives access to the database."""

    # ── changes ──
    async def changes(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> Sequence[Change]:
        """Return up to `limit` changes with numbers above `after` (and not above `until`), in ascending order.

        Optionally only those of one job or of some kinds. `bodies=False` leaves out the bodies of records of job scope,
        which are read from another table.
        """
        ...

    def when_jobs_end(self, tell: Callable[[Collection[int]], None]) -> None:
        """Register a callback for jobs that any process has ended. It gets their numbers; none if some may have been
        missed. It is never called if only one process can end jobs, because its own engine reports them."""
        ...

    def when_jobs_change(self, tell: Callable[[Sequence[JobNews]], None]) -> None:
        """Register a callback for what this process has done to jobs. It is called on the event loop, after the commit;
        a job's news come in their order. What other processes do is reported in those."""
        ...

    # ── the store itself ──
    @property
    def database(self) -> Database:
        """Return the query port, for reports and for tables that are not on the hot path."""
        ...

    async def now_ms(self) -> int:
        """Return the time of `LedgerQueue.now` in Unix milliseconds."""
        ...

    def announce(self, url: str | None) -> None:
        """Publish the address of this process's API for commands on this machine; None removes it.

        Only a store that belongs to one process keeps the address; with PostgreSQL, commands need it in their settings.
        """
        ...

    async def close(self) -> None: ...
