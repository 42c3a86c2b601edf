"""Check that a cursor stored outside the ledger belongs to this ledger's log."""

from forager.core.change import Change
from forager.core.ledger import Ledger
from forager.sdk.queries import last_change


def witness(change: Change) -> str:
    """Return the identity and time of a change. They distinguish this ledger from another, and from an older copy."""
    return f"{change.identity}@{change.at}"


async def witness_of(ledger: Ledger, change: int) -> str:
    """Return the witness of the change with this number. Empty if there is no such change, or if it has been pruned."""
    found = await ledger.changes(change - 1, 1, until=change, bodies=False) if change else ()
    return witness(found[0]) if found else ""


async def is_cursor_of(ledger: Ledger, change: int, seen: str) -> bool:
    """Return whether a cursor that was stored with the witness `seen` can belong to this ledger's log. A pruned change
    is not checked."""
    here = await witness_of(ledger, change)
    return change <= await last_change(ledger.database) and here in ("", seen)
