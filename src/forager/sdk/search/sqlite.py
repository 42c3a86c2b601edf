"""Search on SQLite: an FTS5 table with the texts and a stemmer, and a table of words for misspelt ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.core.database import Database, Row
from forager.core.record import Record
from forager.sdk.search.index import words_table
from forager.sdk.search.ranking import END, START, WEIGHTS


class SqliteStore:
    """Implements `Store`."""

    def __init__(self, record: type[Record], database: Database) -> None:
        self._record = record
        self._db = database
        self._table = f"search_{record.table}"
        self._words = words_table(record)
        self._fields = tuple(record.search)

    @property
    def definition(self) -> str:
        return f"1 {self._fts}"

    @property
    def _fts(self) -> str:
        return (
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {self._table} USING"
            f" fts5({', '.join(self._fields)}, tokenize = 'porter unicode61 remove_diacritics 2')"
        )

    async def create(self) -> None:
        await self._db.write(self._fts)
        await self._db.write(
            f"CREATE TABLE IF NOT EXISTS {self._words}"
            " (form TEXT NOT NULL, word TEXT NOT NULL, PRIMARY KEY (form, word)) WITHOUT ROWID"
        )

    async def drop(self) -> None:
        await self._db.write(f"DROP TABLE IF EXISTS {self._table}")
        await self._db.write(f"DROP TABLE IF EXISTS {self._words}")

    async def put(self, condition: str, values: Mapping[str, Any]) -> None:
        fields, source = ", ".join(self._fields), f"FROM {self._record.table} WHERE {condition}"
        await self._db.write(
            f"INSERT OR REPLACE INTO {self._table} (rowid, {fields}) SELECT id, {fields} {source} ORDER BY id", values
        )

    async def forget(self, ids: Sequence[int]) -> None:
        values = {f"id{number}": each for number, each in enumerate(ids)}
        marks = ", ".join(f":{mark}" for mark in values)
        await self._db.write(f"DELETE FROM {self._table} WHERE rowid IN ({marks})", values)

    async def matches(self, terms: Sequence[Sequence[str]], most: int) -> int:
        (row,) = await self._db.fetch(
            f"SELECT count(*) AS number FROM"
            f" (SELECT 1 FROM {self._table} WHERE {self._table} MATCH :question LIMIT :most)",
            {"question": question(terms), "most": most},
        )
        return int(row["number"])

    async def search(
        self,
        terms: Sequence[Sequence[str]],
        columns: Sequence[str],
        only: Sequence[str],
        values: Mapping[str, Any],
        window: int,
        most: int,
    ) -> Sequence[Row]:
        weights = ", ".join(str(WEIGHTS[weight]) for weight in self._record.search.values())
        where = f" WHERE {' AND '.join(only)}" if only else ""
        shown = "".join(f", i.{name}" for name in columns)
        return await self._db.fetch(
            f"WITH c AS MATERIALIZED (SELECT rowid AS id, -bm25({self._table}, {weights}) AS score FROM {self._table}"
            f" WHERE {self._table} MATCH :question ORDER BY rowid DESC LIMIT :window)"
            f" SELECT c.id, c.score, (SELECT count(*) FROM c) AS matches{shown}"
            f" FROM c JOIN {self._record.table} i ON i.id = c.id{where}"
            f" ORDER BY c.id DESC LIMIT :most",
            {**values, "question": question(terms), "most": most, "window": window},
        )

    async def marked(self, terms: Sequence[Sequence[str]], ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        shown = ", ".join(
            f"highlight({self._table}, {place}, '{START}', '{END}') AS {name}"
            for place, name in enumerate(self._fields)
        )
        values: dict[str, Any] = {f"id{number}": each for number, each in enumerate(ids)}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await self._db.fetch(
            f"SELECT rowid AS id, {shown} FROM {self._table}"
            f" WHERE {self._table} MATCH :question AND rowid IN ({marks})",
            {**values, "question": question(terms)},
        )
        return {row["id"]: {name: row[name] for name in self._fields if row[name]} for row in rows}


def question(terms: Sequence[Sequence[str]]) -> str:
    """Return all terms, each by one of its words. Words are quoted, so that none is an operator."""
    return " AND ".join(f"({' OR '.join(_quoted(word) for word in words)})" for words in terms)


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
