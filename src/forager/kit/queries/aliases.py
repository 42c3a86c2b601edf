"""Aliases: other names under which an answer has shown a record, such as the cid of a place."""

from forager.core.database import Database
from forager.core.record import Record


async def stored_key(db: Database, record: type[Record], key: str) -> str:
    """Return the key under which a record of this class is stored, given that key or an alias.

    Returns `key` itself if it is not an alias; whether such a record exists is not checked.
    """
    if record.identity is None:
        return key
    rows = await db.fetch(
        "SELECT key FROM aliases WHERE identity = :identity AND alias = :alias",
        {"identity": record.identity, "alias": key},
    )
    return str(rows[0]["key"]) if rows else key
