"""The index of one record class in the cluster: written by the sink, searched by edges, rebuilt from the records."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from forager.core.change import Change
from forager.core.database import Database, Row
from forager.core.errors import Conflict, Permanent, ServiceAway, Transient
from forager.core.ledger import Ledger
from forager.sdk.delivery import Indexed
from forager.sdk.queries import last_change
from forager.sdk.search.ranking import END, MOST_NEAR, SHORTEST, START, WEIGHTS, RankedHits, find, terms_of
from forager.sinks.elasticsearch.client import SPELLED, WORDS, Alias, Client, Missing
from forager.sinks.elasticsearch.documents import Documents, write
from forager.sinks.elasticsearch.rebuild import Rebuild
from forager.sinks.log_cursor import is_cursor_of

# Searches as the cluster's query language states them. Pure.
#
# A question is data, never a query string: no character of a word has a meaning of its own.


Terms = Sequence[Sequence[str]]
PAGE = 5_000
"""Hits of one request; clusters refuse more than 10,000 by default."""
ANY_NUMBER = 1_000_000


def all_terms(indexed: Indexed, terms: Terms) -> dict[str, Any]:
    """Match documents that have every term, each by one of its words, in any searched field."""
    fields = [f"{name}.{WORDS}^{WEIGHTS[weight]:g}" for name, weight in indexed.searched.items()]
    return {"bool": {"must": [_any_word(words, fields) for words in terms]}}


def newest(indexed: Indexed, terms: Terms, size: int, below: int | None) -> dict[str, Any]:
    """Return the newest matches with their scores, from the id `below` downwards."""
    body: dict[str, Any] = {
        "query": all_terms(indexed, terms),
        "sort": [{indexed.number: "desc"}],
        "track_scores": True,
        "track_total_hits": False,
        "_source": False,
        "size": size,
    }
    return body if below is None else {**body, "search_after": [below]}


def counted(indexed: Indexed, terms: Terms, most: int) -> dict[str, Any]:
    """Return the number of matching documents, counted up to `most`."""
    return {"query": all_terms(indexed, terms), "size": 0, "track_total_hits": most}


def marks(indexed: Indexed, terms: Terms, ids: Sequence[int]) -> dict[str, Any]:
    """Return the texts of these records with `START` and `END` around what matched."""
    only = {"terms": {indexed.number: list(ids)}}
    return {
        "query": {"bool": {"must": [all_terms(indexed, terms)], "filter": [only]}},
        "sort": [{indexed.number: "desc"}],
        "_source": False,
        "size": len(ids),
        "highlight": {
            "number_of_fragments": 0,
            "pre_tags": [START],
            "post_tags": [END],
            "fields": {f"{name}.{WORDS}": {} for name in indexed.searched},
        },
    }


def near_words(indexed: Indexed, word: str) -> dict[str, Any]:
    """Return words of the index that are one edit away from a word, by field."""
    asked: dict[str, Any] = {
        "suggest_mode": "always",
        "max_edits": 1,
        "prefix_length": 0,
        "min_word_length": SHORTEST - 1,
        "max_term_freq": ANY_NUMBER,
        "size": 2 * MOST_NEAR,
    }
    suggestions = {name: {"term": {"field": f"{name}.{SPELLED}", **asked}} for name in indexed.searched}
    return {"size": 0, "suggest": {"text": word, **suggestions}}


def suggested(answer: Mapping[str, Any]) -> list[str]:
    """Return the words of an answer to `near_words`, without doubles."""
    options = [each for entries in answer.get("suggest", {}).values() for entry in entries for each in entry["options"]]
    return list(dict.fromkeys(str(each["text"]) for each in options))


def _any_word(words: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    return {"bool": {"should": [{"multi_match": {"query": word, "fields": fields}} for word in words]}}


# The queries of ranking to the cluster, and the rows of the ledger for its answers.


IDS = {
    "sqlite": "SELECT value AS id FROM json_each(:found)",
    "postgresql": "SELECT CAST(value AS bigint) AS id FROM json_array_elements_text(CAST(:found AS json)) AS value",
}
"""SQL that returns the ids of a JSON list as rows, by dialect."""


class ElasticCandidates:
    """Implements `Candidates`: the cluster finds and scores, the ledger applies the conditions and has the columns."""

    def __init__(self, client: Client, database: Database, indexed: Indexed, alias: str) -> None:
        self._client = client
        self._database = database
        self._indexed = indexed
        self._path = f"/{alias}/_search"

    async def matches(self, terms: Terms, most: int) -> int:
        """Return the number of records that have all terms, counted up to `most`."""
        answer = await self._ask(counted(self._indexed, terms, most))
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
        """Return the records among the newest `window` matches that meet the conditions (on `i`), at most `most`."""
        scores = await self._scores(terms, window)
        rows = await self._rows(list(scores), columns, only, values, most) if scores else ()
        return [{**row, "score": scores[row["id"]], "matches": len(scores)} for row in rows]

    async def near(self, word: str) -> Sequence[str]:
        """Return words of the index that are one edit away from a word."""
        return suggested(await self._ask(near_words(self._indexed, word)))

    async def marked(self, terms: Terms, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return texts by record and field, with `START` and `END` around each match; only fields with a match."""
        answer = await self._ask(marks(self._indexed, terms, ids))
        return {
            int(hit["sort"][0]): {
                name.removesuffix(f".{WORDS}"): texts[0] for name, texts in hit.get("highlight", {}).items()
            }
            for hit in answer["hits"]["hits"]
        }

    async def _scores(self, terms: Terms, window: int) -> dict[int, float]:
        """Return the newest matches, newest first, each with its score."""
        scores: dict[int, float] = {}
        below: int | None = None
        while len(scores) < window:
            size = min(PAGE, window - len(scores))
            hits = (await self._ask(newest(self._indexed, terms, size, below)))["hits"]["hits"]
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


SEARCH_LATER = "Products are stored and stay listed; searching them works again when it answers."
FORGET_LATER = "Archived records leave it when `forager archive` is run again."
BUILT_AT_ONCE = 20_000
"""Records that a search indexes at most if the index does not exist yet."""


class ElasticIndex:
    """Implements `TextIndex`. Any process may call any method at any time."""

    def __init__(self, client: Client, ledger: Ledger, indexed: Indexed, *, prefix: str = "") -> None:
        self.record = indexed.record
        self._client = client
        self._ledger = ledger
        self._alias = Alias(client, indexed, prefix + indexed.alias)
        self._rebuild = Rebuild(client, ledger, indexed, self._alias)
        self._documents = Documents(indexed, ledger.database)
        self._candidates = ElasticCandidates(client, ledger.database, indexed, self._alias.name)
        self._began: int | None = None
        """The change up to which the index was filled from the records. None: not looked up yet."""

    # ── the sink ──

    async def put(self, changes: Sequence[Change]) -> None:
        """Index the records of these changes as they are now, each with the number of its last change as its version.

        Raises `Permanent` if the cluster refuses one of them, and `Transient` if it cannot be reached.
        """
        began = await self.ready()
        versions = {change.key: change.id for change in changes if change.id > began}
        documents = await self._documents.by_keys(versions)
        try:
            written = await write(self._client, self._alias.name, documents, is_alias=True)
        except Missing:
            self._began = None
            raise
        for key, reason in written.refused.items():
            raise Permanent(f"The search index refuses {self.record.kind} {key[:100]}: {reason}")

    async def ready(self) -> int:
        """Build the index if it does not exist or has another definition; complete a rebuild that was interrupted.

        Returns the change up to which it was filled from the records. Raises `Conflict` if it belongs to another
        ledger, or if another process is building it, and `Transient` for every refusal of the cluster: an error of the
        index is not a reason to set a change aside.
        """
        if self._began is None:
            try:
                self._began = await self._prepare()
            except Permanent as error:
                raise Transient(error.message) from error
        return self._began

    async def _prepare(self) -> int:
        meta = await self._alias.current()
        if meta is None or meta["definition"] != self._alias.definition:
            while await self._rebuild.part(BUILT_AT_ONCE, go_on=True):
                pass
            meta = await self._alias.current()
        if meta is None:
            raise Missing(f"The alias {self._alias.name!r} is not there, although its index was built.")
        await self._check_ledger(int(meta["began"]), str(meta["witness"]))
        await self._rebuild.complete()
        return int(meta["began"])

    async def _check_ledger(self, began: int, witness: str) -> None:
        if not await is_cursor_of(self._ledger, began, witness):
            raise Conflict(
                f"The index {self._alias.name!r} was filled from another ledger, or from a later state of this one. Set"
                " FORAGER_ELASTICSEARCH_PREFIX, or run `forager search rebuild`."
            )

    async def close(self) -> None:
        await self._client.close()

    # ── edges ──

    async def search(
        self, text: str, columns: Sequence[str] = (), only: Sequence[str] = (), values: Mapping[str, Any] | None = None
    ) -> RankedHits:
        """Find records by the words of a text; all words must match. Builds an index that is not there yet.

        Search the index. Raises `ServiceAway` if the cluster cannot be reached.
        """
        with self._translated():
            try:
                return await find(self._candidates, self._candidates.near, text, columns, only, values)
            except Missing:
                left = await self._build()
            if left:
                return RankedHits((), terms_of(text), more=False, unindexed=left)
            return await find(self._candidates, self._candidates.near, text, columns, only, values)

    async def marked(self, matches: RankedHits, ids: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Return texts by record and field, with `START` and `END` around each match; only fields with a match."""
        if not ids:
            return {}
        with self._translated():
            return await self._candidates.marked(matches.terms, ids)

    async def forget(self, gone: Mapping[int, str]) -> None:
        """Remove records that are no longer stored, including from an index that is being built. Raises `ServiceAway`
        if the cluster cannot be reached."""
        with self._translated(FORGET_LATER):
            # A rebuild may have read these records before they left the store. One that begins later has not.
            building = await self._rebuild.target()
            # The end of the log is read before the records: a record stored after that has a later change.
            tail = await last_change(self._ledger.database)
            read = await self._documents.by_keys(dict.fromkeys(gone.values(), tail))
            missing = [document for document in read if document.body is None]
            # To a missing alias, a cluster would create an index of that name: for removals it ignores `require_alias`.
            if await self._alias.current() is not None:
                await write(self._client, self._alias.name, missing, is_alias=True)
            if building is not None:
                await write(self._client, building, missing)

    async def rebuild(self, most: int, *, go_on: bool = False) -> int:
        """Rebuild the index without interrupting searches: see `Rebuild.part`."""
        with self._translated():
            left = await self._rebuild.part(most, go_on=go_on)
        self._began = None
        return left

    async def _build(self) -> int:
        """Build a part of an index that is not there. Returns how many records are left."""
        try:
            return await self._rebuild.part(BUILT_AT_ONCE, go_on=True)
        except Conflict:
            if await self._alias.current() is not None:
                return 0
            return max(1, await self._documents.last())  # another process is building it

    @contextmanager
    def _translated(self, then: str = SEARCH_LATER) -> Iterator[None]:
        """Translate failures of the cluster as seen by a sink to errors of a request. `then` ends the message."""
        try:
            yield
        except (Transient, Permanent) as error:
            raise ServiceAway(f"{error.message} {then}") from error
