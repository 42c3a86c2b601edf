"""Search on PostgreSQL: a weighted `tsvector` (english) per record with a GIN index, and a table of words for misspelt
ones.

Texts are folded before they are indexed (no accents, no punctuation), because PostgreSQL's own parser would make one
token of an address or a tag, which no word of a question matches. Folding keeps the length of a text, so what matched
in the folded text is marked in the original.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.core.database import Database, Row
from forager.core.record import Record
from forager.sdk.search.index import words_table
from forager.sdk.search.ranking import END, START, folding

LANGUAGE = "english"
_HEADLINE = f"StartSel={START}, StopSel={END}, HighlightAll=true"
_SPELLED, _PLAIN = folding()
_ASCII = "".join(char for char in _SPELLED if char.isascii())
_FOLDING = {"spelled": _SPELLED, "plain": _PLAIN, "ascii": _ASCII, "blanks": " " * len(_ASCII)}
_ASKED = f"to_tsquery('{LANGUAGE}', :question)"
_LOCK = 0x666F7273
"""Advisory lock: two processes must not create the same tables at once."""


class PostgresStore:
    """Implements `Store`."""

    def __init__(self, record: type[Record], database: Database) -> None:
        self._record = record
        self._db = database
        self._table = f"search_{record.table}"
        self._words = words_table(record)
        self._fields = tuple(record.search)

    @property
    def definition(self) -> str:
        return f"1 {LANGUAGE} {self._document}"

    @property
    def _document(self) -> str:
        parts = (
            f"setweight(to_tsvector('{LANGUAGE}', {_folded(name)}), '{weight}')"
            for name, weight in self._record.search.items()
        )
        return " || ".join(parts)

    async def create(self) -> None:
        words = f"CREATE TABLE IF NOT EXISTS {self._words} (form TEXT, word TEXT, PRIMARY KEY (form, word));"
        await self._locked(
            f"CREATE TABLE IF NOT EXISTS {self._table} (id BIGINT PRIMARY KEY, document tsvector NOT NULL);"
            f" CREATE INDEX IF NOT EXISTS ix_{self._table}_document ON {self._table} USING gin (document); {words}"
        )

    async def drop(self) -> None:
        await self._locked(f"DROP TABLE IF EXISTS {self._table}, {self._words};")

    async def put(self, condition: str, values: Mapping[str, Any]) -> None:
        await self._db.write(
            f"INSERT INTO {self._table} (id, document) SELECT id, {self._document} FROM {self._record.table}"
            f" WHERE {condition} ORDER BY id ON CONFLICT (id) DO UPDATE SET document = excluded.document",
            {**values, **_FOLDING},
        )

    async def forget(self, ids: Sequence[int]) -> None:
        values = {f"id{number}": each for number, each in enumerate(ids)}
        marks = ", ".join(f":{mark}" for mark in values)
        await self._db.write(f"DELETE FROM {self._table} WHERE id IN ({marks})", values)

    async def matches(self, terms: Sequence[Sequence[str]], most: int) -> int:
        (row,) = await self._db.fetch_by_words(
            f"SELECT count(*) AS number FROM (SELECT 1 FROM {self._table} WHERE document @@ {_ASKED} LIMIT :most) m",
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
        where = f" WHERE {' AND '.join(only)}" if only else ""
        shown = "".join(f", i.{name}" for name in columns)
        return await self._db.fetch_by_words(
            # OFFSET 0 keeps the planner from joining whole tables: each candidate is looked up by its id.
            f"WITH c AS MATERIALIZED (SELECT s.id, s.document FROM {self._table} s WHERE s.document @@ {_ASKED}"
            f" ORDER BY s.id DESC LIMIT :window)"
            f" SELECT c.id, ts_rank(c.document, {_ASKED}) AS score, (SELECT count(*) FROM c) AS matches{shown}"
            f" FROM c CROSS JOIN LATERAL"
            f" (SELECT i.* FROM {self._record.table} i WHERE i.id = c.id OFFSET 0) i{where}"
            f" ORDER BY c.id DESC LIMIT :most",
            {**values, "question": question(terms), "most": most, "window": window},
        )

    async def marked(self, terms: Sequence[Sequence[str]], ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        shown = ", ".join(
            f"{name}, ts_headline('{LANGUAGE}', {_folded(name)}, {_ASKED}, '{_HEADLINE}') AS {name}_marked"
            for name in self._fields
        )
        values: dict[str, Any] = {f"id{number}": each for number, each in enumerate(ids)}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await self._db.fetch(
            f"SELECT id, {shown} FROM {self._record.table} WHERE id IN ({marks})",
            {**values, **_FOLDING, "question": question(terms)},
        )
        return {
            row["id"]: {name: unfolded(row[f"{name}_marked"], row[name]) for name in self._fields if row[name]}
            for row in rows
        }

    async def _locked(self, statements: str) -> None:
        await self._db.write(f"DO $do$ BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); {statements} END $do$")


def question(terms: Sequence[Sequence[str]]) -> str:
    """Return all terms, each by one of its words. Words are quoted, so that none is an operator."""
    return " & ".join(f"({' | '.join(_quoted(word) for word in words)})" for words in terms)


def unfolded(marked: str, original: str) -> str:
    """Return the original text with the marks of its folded form."""
    text, place = [], 0
    for char in marked:
        if char in (START, END):
            text.append(char)
        else:
            text.append(original[place : place + 1])
            place += 1
    return "".join(text) + original[place:]


def _folded(name: str) -> str:
    """`translate` looks each character up in a list: most texts are ASCII and need only the short one."""
    text = f"coalesce({name}, '')"
    is_ascii = f"octet_length({text}) = char_length({text})"
    return f"CASE WHEN {is_ascii} THEN translate({text}, :ascii, :blanks) ELSE translate({text}, :spelled, :plain) END"


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
