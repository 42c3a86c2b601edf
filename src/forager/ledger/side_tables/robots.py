"""The robots.txt files in the ledger: one row per origin, on either database. Never on a hot path: once per origin."""

from forager.core.database import Database
from forager.core.robots import RobotsFile

OF_USE_MS = 7 * 24 * 3600 * 1000
"""A copy is valid for a day and refreshed while its site is used: one that was not refreshed for a week is useless."""
PRUNED_AT_ONCE = 100
"""Maximum files that a sweep removes: a file can have 500 KiB."""


class LedgerRobots:
    """Implements `core.robots.RobotsStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, origin: str) -> RobotsFile | None:
        rows = await self._database.fetch(
            "SELECT origin, tried_at, status, body, good_at FROM robots WHERE origin = :origin", {"origin": origin}
        )
        return RobotsFile(**rows[0]) if rows else None

    async def keep(self, file: RobotsFile) -> None:
        """Store a file. If two processes try at once, the later answer stays, whichever is written last."""
        await self._database.write(
            "INSERT INTO robots (origin, tried_at, status, body, good_at)"
            " VALUES (:origin, :tried_at, :status, :body, :good_at)"
            " ON CONFLICT (origin) DO UPDATE SET tried_at = excluded.tried_at, status = excluded.status,"
            " body = excluded.body, good_at = excluded.good_at WHERE robots.tried_at <= excluded.tried_at",
            {
                "origin": file.origin,
                "tried_at": file.tried_at,
                "status": file.status,
                "body": file.body,
                "good_at": file.good_at,
            },
        )
