"""The index of one record class in the ledger's own store: how it is filled, kept and searched."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from forager.core.database import Database, Row
from forager.core.record import Record
from forager.sdk.search.ranking import Candidates, RankedHits, can_be_misspelt, find, forms_of, rows_for, words_of

# The table of the words in an index, under the forms by which a misspelt word finds them. The same on both stores.


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


AT_ONCE = 1_000
"""Records that are indexed in one statement."""
KNOWN_WORDS = 200_000
CAUGHT_UP = 20_000
"""Maximum of records that one search adds to the index because the sink has not reached them yet."""


class TextIndex(Protocol):
    """The index of one record class as an edge uses it, wherever it is kept."""

    async def search(
        self, text: str, columns: Sequence[str] = (), only: Sequence[str] = (), values: Mapping[str, Any] | None = None
    ) -> RankedHits:
        """Find records by the words of a text; all words must match. `only` are SQL conditions on the record's row,
        called `i`; `columns` of that row are returned with each hit. Raises `ServiceAway` if the index cannot be
        reached."""
        ...

    async def marked(self, matches: RankedHits, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return the text of each field by record, with `START` and `END` around each match."""
        ...

    async def forget(self, gone: Mapping[int, str]) -> None:
        """Remove records from the index that are no longer in their table: the key of each by its id. A record that is
        stored again under one of these keys stays. Raises `ServiceAway` if the index cannot be reached."""
        ...

    async def rebuild(self, most: int, *, go_on: bool = False) -> int:
        """Begin to rebuild the index, or `go_on` with it, for about `most` records.

        Returns how many are left: call it again with `go_on` until that is 0. Raises `Conflict` if another rebuild is
        under way."""
        ...


class Store(Candidates, Protocol):
    """The differences between the stores."""

    @property
    def definition(self) -> str:
        """Everything that determines the contents of the index. If it changes, the index is rebuilt."""
        ...

    async def create(self) -> None: ...
    async def drop(self) -> None: ...
    async def put(self, condition: str, values: Mapping[str, Any]) -> None:
        """Index the records that meet a condition on their table, in place of what was indexed of them."""
        ...

    async def forget(self, ids: Sequence[int]) -> None:
        """Remove records that are no longer stored from the index."""
        ...

    async def marked(self, terms: Sequence[Sequence[str]], ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return the text of each field by record, with `START` and `END` around each match."""
        ...


@dataclass(slots=True)
class SearchIndex:
    """Searches a record class and updates its index. Any process may call any method at any time."""

    record: type[Record]
    database: Database
    store: Store
    _known: set[str] = field(default_factory=set)
    _exists: bool = False

    @property
    def name(self) -> str:
        return f"search_{self.record.table}"

    @property
    def _words(self) -> WordTable:
        return WordTable(self.record, self.database)

    async def search(
        self, text: str, columns: Sequence[str] = (), only: Sequence[str] = (), values: Mapping[str, Any] | None = None
    ) -> RankedHits:
        """Find records by the words of a text; all words must match. `only` are SQL conditions on the record's row,
        called `i`; `columns` of that row are returned with each hit."""
        unindexed = await self.catch_up(CAUGHT_UP)
        found = await find(self.store, self._near, text, columns, only, values)
        return replace(found, unindexed=unindexed)

    async def marked(self, matches: RankedHits, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return the text of each field by record, with `START` and `END` around each match."""
        return await self.store.marked(matches.terms, ids) if ids else {}

    async def put(self, keys: Sequence[str]) -> None:
        """Index the records with these keys as they are now, and all that were stored since the last time. A record
        that is both, as most are while a shop is crawled for the first time, is indexed once."""
        await self.ensure()
        before = await self._filled()
        await self._fill(before)  # from here on, whatever another process has indexed meanwhile: it may be older
        for start in range(0, len(keys), 500):
            part = {f"key{n}": key for n, key in enumerate(keys[start : start + 500])}
            marks = ", ".join(f":{mark}" for mark in part)
            await self._put(f"id <= :before AND {self.record.key_field} IN ({marks})", {**part, "before": before})

    async def forget(self, gone: Mapping[int, str]) -> None:
        """Remove records from the index that are no longer in their table, by their ids: none is given twice."""
        await self.ensure()
        ids = list(gone)
        for start in range(0, len(ids), 500):
            await self.store.forget(ids[start : start + 500])

    async def catch_up(self, most: int | None = None) -> int:
        """Index the records that were stored since the last time, at most about `most`. Returns how many ids are left.

        The sink indexes every change; this also covers records that were stored before the index existed.
        """
        await self.ensure()
        return await self._fill(await self._filled(), most)

    async def _fill(self, filled: int, most: int | None = None) -> int:
        """Index the records after the id `filled`, at most about `most`. Returns how many ids are left."""
        (row,) = await self.database.fetch(f"SELECT coalesce(max(id), 0) AS last FROM {self.record.table}")
        last, stop = int(row["last"]), None if most is None else filled + most
        while filled < last and (stop is None or filled < stop):
            end = min(filled + AT_ONCE, last)
            await self._put("id > :first AND id <= :last", {"first": filled, "last": end})
            await self.database.write(
                "UPDATE search_indexes SET filled = :end WHERE name = :name AND filled < :end",
                {"end": end, "name": self.name},
            )
            filled = end
        return max(0, last - filled)

    async def rebuild(self, most: int, *, go_on: bool = False) -> int:
        """Replace the index by an empty one, unless `go_on`, and index about `most` records. Returns how many are
        left."""
        if not go_on:
            await self.ensure()
            await self.store.drop()
            await self._make()
        return await self.catch_up(most)

    async def ensure(self) -> None:
        """Create the index if it does not exist, or if it has another definition."""
        if self._exists:
            return
        await self.database.write(_INDEXES)
        rows = await self.database.fetch(
            "SELECT definition FROM search_indexes WHERE name = :name", {"name": self.name}
        )
        if not rows or rows[0]["definition"] != self.store.definition:
            if rows:
                await self.store.drop()
            await self._make()
        self._exists = True

    async def _make(self) -> None:
        await self.store.create()
        self._known.clear()
        await self.database.write(
            "INSERT INTO search_indexes (name, definition, filled) VALUES (:name, :definition, 0)"
            " ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, filled = 0",
            {"name": self.name, "definition": self.store.definition},
        )

    async def _filled(self) -> int:
        rows = await self.database.fetch("SELECT filled FROM search_indexes WHERE name = :name", {"name": self.name})
        return int(rows[0]["filled"]) if rows else 0

    async def _put(self, condition: str, values: Mapping[str, Any]) -> None:
        fields = ", ".join(self.record.search)
        rows = await self.database.fetch(f"SELECT {fields} FROM {self.record.table} WHERE {condition}", values)
        if rows:
            await self._learn(rows)
            await self.store.put(condition, values)

    async def _learn(self, rows: Sequence[Row]) -> None:
        """Store the words that were not met before, so that a misspelt one finds them."""
        met = await asyncio.to_thread(_vocabulary, rows) - self._known
        if len(self._known) + len(met) > KNOWN_WORDS:
            self._known.clear()
        new = list(rows_for(met))
        for start in range(0, len(new), 500):
            await self._words.add(new[start : start + 500])
        self._known |= met

    async def _near(self, word: str) -> Sequence[str]:
        return await self._words.near(sorted(forms_of(word)))


def _vocabulary(rows: Iterable[Row]) -> set[str]:
    texts = (value for row in rows for value in row.values() if value)
    return {word for word in {word for text in texts for word in words_of(text)} if can_be_misspelt(word)}


_INDEXES = """
CREATE TABLE IF NOT EXISTS search_indexes (name TEXT PRIMARY KEY, definition TEXT NOT NULL, filled BIGINT NOT NULL)
"""
