"""Where the change log ends."""

from forager.core.database import Database


async def last_change(database: Database) -> int:
    """Return the number of the newest change, also if it has been pruned; 0 before the first.

    Whatever is read after this is at least as new as that change.
    """
    (row,) = await database.fetch("SELECT change FROM tail")
    return int(row["change"])
