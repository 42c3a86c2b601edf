"""Which folder of stored pages belongs to the ledger, by its id."""

from forager.core.database import Database


class BlobFolderTable:
    """One row, written by the first process that works on the ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self) -> str | None:
        """Return the id of the ledger's folder; None if it has none yet."""
        rows = await self._database.fetch("SELECT folder FROM blob_folder")
        return str(rows[0]["folder"]) if rows else None

    async def claim(self, folder: str) -> str:
        """Note this folder as the ledger's, unless it has one. Returns the one that it has then: of several processes
        that do this at once, one succeeds."""
        await self._database.write(
            "INSERT INTO blob_folder (one, folder) VALUES (1, :folder) ON CONFLICT (one) DO NOTHING", {"folder": folder}
        )
        return await self.get() or folder

    async def replace(self, folder: str) -> None:
        """Note this folder as the ledger's, whichever it had before."""
        await self._database.write(
            "INSERT INTO blob_folder (one, folder) VALUES (1, :folder)"
            " ON CONFLICT (one) DO UPDATE SET folder = excluded.folder",
            {"folder": folder},
        )
