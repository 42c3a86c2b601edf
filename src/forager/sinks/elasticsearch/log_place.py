"""Where the log ends, and how one place of it is recognised later."""

from forager.core.database import Database
from forager.core.ledger import Ledger


async def tail_of(database: Database) -> int:
    """The number of the newest change; 0 before the first."""
    (row,) = await database.fetch("SELECT change FROM tail")
    return int(row["change"])


async def witness_of(ledger: Ledger, change: int) -> str:
    """What a change is about and when it was made: it tells this ledger from another one, or from an older copy of it.
    Empty if there is no such change, or if it has been pruned."""
    found = await ledger.changes(change - 1, 1, until=change, bodies=False) if change else ()
    return f"{found[0].identity}@{found[0].at}" if found else ""
