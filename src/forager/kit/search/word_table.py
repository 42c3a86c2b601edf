"""The table of the words in an index, under the forms by which a misspelt word finds them. The same on both stores."""

from collections.abc import Sequence
from typing import Any

from forager.core.database import Database
from forager.core.record import Record


def words_table(record: type[Record]) -> str:
    """Return the name of the table. Each store creates and drops it with its index."""
    return f"search_{record.table}_words"


class WordTable:
    """The words in the index of one record class."""

    def __init__(self, record: type[Record], database: Database) -> None:
        self._table = words_table(record)
        self._db = database

    async def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add words, each as (form, word). Those that are there already are left as they are."""
        values: dict[str, Any] = {}
        for number, (form, word) in enumerate(rows):
            values |= {f"f{number}": form, f"w{number}": word}
        marks = ", ".join(f"(:f{number}, :w{number})" for number in range(len(rows)))
        await self._db.write(f"INSERT INTO {self._table} (form, word) VALUES {marks} ON CONFLICT DO NOTHING", values)

    async def near(self, forms: Sequence[str]) -> Sequence[str]:
        """Return the words under any of these forms."""
        values = {f"f{number}": form for number, form in enumerate(forms)}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await self._db.fetch(f"SELECT word FROM {self._table} WHERE form IN ({marks})", values)
        return [row["word"] for row in rows]
