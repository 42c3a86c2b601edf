"""What ranking asks of the cluster, and the rows of the ledger that belong to the answers."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from forager.core.database import Database, Row
from forager.kit.indexed import Indexed
from forager.sinks.elasticsearch import questions
from forager.sinks.elasticsearch.client import Client
from forager.sinks.elasticsearch.mapping import WORDS

Terms = Sequence[Sequence[str]]
IDS = {
    "sqlite": "SELECT value AS id FROM json_each(:found)",
    "postgresql": "SELECT CAST(value AS bigint) AS id FROM json_array_elements_text(CAST(:found AS json)) AS value",
}
"""By dialect: the ids of a JSON list, as rows."""


class ElasticCandidates:
    """Implements `Candidates`: the cluster finds and scores, the ledger applies the conditions and has the columns."""

    def __init__(self, client: Client, database: Database, indexed: Indexed, alias: str) -> None:
        self._client = client
        self._database = database
        self._indexed = indexed
        self._path = f"/{alias}/_search"

    async def matches(self, terms: Terms, most: int) -> int:
        """The number of records that have all terms, counted up to `most`."""
        answer = await self._ask(questions.counted(self._indexed, terms, most))
        return min(most, int(answer["hits"]["total"]["value"]))

    async def search(
        self,
        terms: Terms,
        columns: Sequence[str],
        only: Sequence[str],
        values: Mapping[str, Any],
        window: int,
        most: int,
    ) -> Sequence[Row]:
        """The records among the newest `window` matches that meet the conditions (on `i`), at most `most` of them."""
        scores = await self._scores(terms, window)
        rows = await self._rows(list(scores), columns, only, values, most) if scores else ()
        return [{**row, "score": scores[row["id"]], "matches": len(scores)} for row in rows]

    async def near(self, word: str) -> Sequence[str]:
        """Words of the index that are one edit away from a word."""
        return questions.suggested(await self._ask(questions.near_words(self._indexed, word)))

    async def marked(self, terms: Terms, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """By record and field: its text, with `START` and `END` around each match; only fields with a match."""
        answer = await self._ask(questions.marks(self._indexed, terms, ids))
        return {
            int(hit["sort"][0]): {
                name.removesuffix(f".{WORDS}"): texts[0] for name, texts in hit.get("highlight", {}).items()
            }
            for hit in answer["hits"]["hits"]
        }

    async def _scores(self, terms: Terms, window: int) -> dict[int, float]:
        """The newest matches, newest first, each with its score."""
        scores: dict[int, float] = {}
        below: int | None = None
        while len(scores) < window:
            size = min(questions.PAGE, window - len(scores))
            hits = (await self._ask(questions.newest(self._indexed, terms, size, below)))["hits"]["hits"]
            scores |= {int(hit["sort"][0]): float(hit["_score"]) for hit in hits}
            if len(hits) < size:
                break
            below = int(hits[-1]["sort"][0])
        return scores

    async def _rows(
        self, ids: list[int], columns: Sequence[str], only: Sequence[str], values: Mapping[str, Any], most: int
    ) -> Sequence[Row]:
        shown = "".join(f", i.{name}" for name in columns)
        where = f" WHERE {' AND '.join(only)}" if only else ""
        return await self._database.fetch(
            # OFFSET 0 keeps PostgreSQL's planner from joining whole tables: each candidate is looked up by its id.
            f"WITH c AS MATERIALIZED ({IDS[self._database.dialect]}) SELECT i.id{shown} FROM c {self._lookup}{where}"
            " ORDER BY i.id DESC LIMIT :most",
            {**values, "found": orjson.dumps(ids).decode(), "most": most},
        )

    @property
    def _lookup(self) -> str:
        table = self._indexed.record.table
        if self._database.dialect == "sqlite":
            return f"JOIN {table} i ON i.id = c.id"
        return f"CROSS JOIN LATERAL (SELECT i.* FROM {table} i WHERE i.id = c.id OFFSET 0) i"

    async def _ask(self, body: Any) -> Any:
        return await self._client.ask("POST", self._path, body)
