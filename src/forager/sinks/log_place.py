"""How a place of the change log that a sink keeps elsewhere is recognised later: as a place of this ledger's log."""

from forager.core.change import Change
from forager.core.ledger import Ledger
from forager.kit.queries import last_change


def witness(change: Change) -> str:
    """Return what a change is about and when it was made: it tells this ledger from another one, or from an older copy
    of it."""
    return f"{change.identity}@{change.at}"


async def witness_of(ledger: Ledger, change: int) -> str:
    """Return the witness of the change with this number. Empty if there is no such change, or if it has been pruned."""
    found = await ledger.changes(change - 1, 1, until=change, bodies=False) if change else ()
    return witness(found[0]) if found else ""


async def is_place_of(ledger: Ledger, change: int, seen: str) -> bool:
    """Return whether a place that was kept with the witness `seen` can be a place of this ledger's log. A change that
    has been pruned is believed."""
    here = await witness_of(ledger, change)
    return change <= await last_change(ledger.database) and here in ("", seen)
