"""Ending the queued tasks of jobs that are cancelled or out of budget, a page at a time."""

from collections.abc import Iterable

from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Connections
from forager.ledger.postgres.control import drain_page

_START = ("", "")


class Drain:
    def __init__(self, connections: Connections, catalog: Catalog) -> None:
        self._connections = connections
        self._catalog = catalog
        self._jobs: dict[int, tuple[str, str]] = {}
        """Where the next page of each begins. Lost with the process: the sweep of another begins anew."""

    @property
    def has_more(self) -> bool:
        return bool(self._jobs)

    def add(self, jobs: Iterable[int]) -> None:
        for job in jobs:
            self._jobs.setdefault(job, _START)

    async def page(self, limit: int) -> int:
        """Look at up to `limit` tasks. Returns how many were ended."""
        if not self._jobs:
            return 0
        job, begin = next(iter(self._jobs.items()))
        ended, after = await self._connections.run(lambda db: drain_page(db, self._catalog, job, begin, limit))
        if after is None:
            self._jobs.pop(job, None)
        else:
            self._jobs[job] = after
        return ended
