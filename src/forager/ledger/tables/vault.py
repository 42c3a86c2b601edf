"""The vault: secret texts of the installation, sealed, by what they belong to (`channel`, `session`) and by name.

A text is decrypted for the moment of its use and is in no report. Key rotation seals every row with the newest key.
"""

from collections.abc import Sequence

from forager.core.database import Database, Row
from forager.core.secret import HEAD, Seal, SealedFor, Secret, key_id_of

_ALL = "SELECT v.kind, v.name, v.sealed FROM vault v"
_PUT = """
INSERT INTO vault (kind, name, sealed) VALUES (:kind, :name, :sealed)
ON CONFLICT (kind, name) DO UPDATE SET sealed = excluded.sealed
"""


class VaultTable:
    """Implements `core.secret.Vault`, `SealedTable` and `KeyUser`."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database = database
        self._seal = seal

    async def put(self, of: str, name: str, text: Secret) -> None:
        sealed = self._seal.seal(text.reveal(), _about(of, name))
        await self._database.write(_PUT, {"kind": of, "name": name, "sealed": sealed})

    async def get(self, of: str, name: str) -> Secret | None:
        values = {"kind": of, "name": name}
        rows = await self._database.fetch(f"{_ALL} WHERE v.kind = :kind AND v.name = :name", values)
        return Secret(self._seal.unseal(rows[0]["sealed"], _about(of, name))) if rows else None

    async def remove(self, of: str, name: str) -> None:
        values = {"kind": of, "name": name}
        await self._database.write("DELETE FROM vault WHERE kind = :kind AND name = :name", values)

    async def stale(self) -> int:
        return len(await self._stale())

    async def key_ids(self) -> frozenset[str]:
        rows = await self._database.fetch(f"SELECT DISTINCT substr(sealed, 1, {HEAD}) AS head FROM vault")
        return frozenset(key_id_of(row["head"]) for row in rows)

    async def reseal(self) -> int:
        stale = await self._stale()
        for row in stale:
            about = _about(row["kind"], row["name"])
            # Only if it is still the same text: it may have been replaced meanwhile.
            await self._database.write(
                "UPDATE vault SET sealed = :new WHERE kind = :kind AND name = :name AND sealed = :old",
                {
                    "new": self._seal.seal(self._seal.unseal(row["sealed"], about), about),
                    "kind": row["kind"],
                    "name": row["name"],
                    "old": row["sealed"],
                },
            )
        return len(stale)

    async def _stale(self) -> Sequence[Row]:
        return [row for row in await self._database.fetch(_ALL) if not self._seal.is_current(row["sealed"])]


def _about(of: str, name: str) -> SealedFor:
    return SealedFor("vault", f"{of}/{name}", "sealed")
