"""A stand-in for Elasticsearch and OpenSearch: NOT the real thing, only the requests that Forager sends to them.

It keeps indexes in memory and implements aliases, external versions, the queries of `sinks/elasticsearch/search.py`,
highlights and term suggestions. Its stemmer only removes a plural `s`; its scores are weights.
`tests/servers/test_opensearch.py` shows on a real cluster what depends on one.
"""

import asyncio
import fnmatch
import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.support.ports import bound_socket

WORD = re.compile(r"[^\W_]+")
LONGEST_KEYWORD = 32_766


@dataclass
class _Index:
    body: dict[str, Any]
    documents: dict[str, tuple[int, dict[str, Any] | None]] = field(default_factory=dict)
    """Maps an id to version and source; None once it is deleted."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for number, (version, source) in self.documents.items():
            if source is not None:
                yield {**source, "_id": number, "_version": version}


@dataclass
class Refusal(Exception):
    status: int
    kind: str
    reason: str = ""

    @property
    def json(self) -> dict[str, Any]:
        return {"type": self.kind, "reason": self.reason or self.kind}


class StandIn:
    """Serves on loopback from a thread of its own, so that other processes of a test can also use it."""

    def __init__(self) -> None:
        self.indexes: dict[str, _Index] = {}
        self.aliases: dict[str, str] = {}
        self.refused: set[str] = set()
        """Words that no document may contain: such a document is refused permanently."""
        self.refuses_indexes = False
        """True if no further index may be created."""
        self.down = False
        self.lost = 0
        """Number of bulk requests that take effect although their answer is an error."""
        self.requests: list[tuple[str, str]] = []
        self._started = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()
        assert self._started.wait(30)

    def _serve(self) -> None:
        async def run() -> None:
            app = web.Application(client_max_size=1 << 30)
            app.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.SockSite(runner, bound_socket())
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await asyncio.Event().wait()

        asyncio.run(run())

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        content = await request.read()
        if self.down:
            return web.json_response({"error": "down"}, status=503)
        try:
            answer = self._do(request.method, request.path.strip("/").split("/"), content, request)
        except Refusal as error:
            return web.json_response({"error": error.json, "status": error.status}, status=error.status)
        if self.lost and request.path.endswith("_bulk"):
            self.lost -= 1
            return web.json_response({"error": "lost"}, status=504)
        return web.Response(body=orjson.dumps(answer), content_type="application/json")

    def _do(self, method: str, path: list[str], content: bytes, request: web.Request) -> Any:
        match method, path:
            case "GET", [name, "_mapping"]:
                found = self._named(name)
                if not found and "*" not in name:
                    raise Refusal(404, "index_not_found_exception")
                return {each: {"mappings": self.indexes[each].body["mappings"]} for each in found}
            case "GET", ["_alias", name]:
                if name not in self.aliases:
                    raise Refusal(404, "aliases_not_found_exception")
                return {self.aliases[name]: {"aliases": {name: {}}}}
            case "POST", ["_aliases"]:
                return self._move(orjson.loads(content)["actions"])
            case "PUT", [name]:
                if name in self.indexes:
                    raise Refusal(400, "resource_already_exists_exception")
                if self.refuses_indexes:
                    raise Refusal(400, "validation_exception", "this cluster has the maximum shards open")
                self.indexes[name] = _Index(orjson.loads(content))
            case "DELETE", [name]:
                if self.indexes.pop(name, None) is None:
                    raise Refusal(404, "index_not_found_exception")
            case "POST", [name, "_refresh"]:
                self._one(name)
            case "POST", [name, "_bulk"]:
                return self._bulk(name, content, must_be_alias="require_alias" in request.query)
            case "POST", [name, "_search"]:
                return search(self._one(name), orjson.loads(content))
            case _:
                raise Refusal(405, "not_in_this_stand_in", f"{method} {path}")
        return {"acknowledged": True}

    def _named(self, name: str) -> list[str]:
        if name in self.aliases:
            return [self.aliases[name]]
        return [each for each in self.indexes if fnmatch.fnmatchcase(each, name)]

    def _one(self, name: str) -> _Index:
        found = self._named(name)
        if not found:
            raise Refusal(404, "index_not_found_exception", f"no such index [{name}]")
        return self.indexes[found[0]]

    def _move(self, actions: list[dict[str, Any]]) -> Any:
        for action in actions:
            ((verb, about),) = action.items()
            if about["alias"] in self.indexes:
                raise Refusal(400, "invalid_alias_name_exception")
            if verb == "add":
                self.aliases[about["alias"]] = about["index"]
        return {"acknowledged": True}

    # ── documents ──

    def _bulk(self, name: str, content: bytes, *, must_be_alias: bool) -> Any:
        lines = [orjson.loads(line) for line in content.splitlines()]
        items = []
        while lines:
            ((verb, about),) = lines.pop(0).items()
            source = lines.pop(0) if verb == "index" else None
            try:
                if verb == "delete" and not self._named(name):
                    self.indexes[name] = _Index({"mappings": {}})  # as the real ones do, even with `require_alias`
                elif must_be_alias and name not in self.aliases:
                    raise Refusal(404, "index_not_found_exception", f"[{name}] is not an alias")
                status = self._put(self._one(name), about, source)
                items.append({verb: {"_id": about["_id"], "status": status}})
            except Refusal as error:
                items.append({verb: {"_id": about["_id"], "status": error.status, "error": error.json}})
        return {"errors": any("error" in next(iter(item.values())) for item in items), "items": items}

    def _put(self, index: _Index, about: dict[str, Any], source: dict[str, Any] | None) -> int:
        assert about["version_type"] in ("external", "external_gte")
        stored, _ = index.documents.get(about["_id"], (-1, None))
        if about["version"] < stored + (about["version_type"] == "external"):
            raise Refusal(409, "version_conflict_engine_exception")
        if not 0 < len(about["_id"].encode()) <= 512:
            raise Refusal(400, "illegal_argument_exception", "the _id is too long, or empty")
        for value in (source or {}).values():
            if isinstance(value, str) and self.refused & set(WORD.findall(value)):
                raise Refusal(400, "mapper_parsing_exception", "a word that this stand-in refuses")
        index.documents[about["_id"]] = (about["version"], source)
        return 404 if source is None and stored < 0 else 201 if stored < 0 else 200


# ── searches ──


def plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def stem(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word


def words(text: Any) -> list[str]:
    return WORD.findall(plain(text)) if isinstance(text, str) else []


def search(index: _Index, body: dict[str, Any]) -> dict[str, Any]:
    found = [(score(body["query"], row), row) for row in index.rows()] if "query" in body else []
    hits = [(points, row) for points, row in found if points > 0]
    answer: dict[str, Any] = {"hits": {"total": {"value": len(hits), "relation": "eq"}, "hits": []}}
    if body["size"]:
        (((by, _),),) = (order.items() for order in body["sort"])
        hits.sort(key=lambda hit: -hit[1][by])
        after = body.get("search_after", [float("inf")])[0]
        shown = [hit for hit in hits if hit[1][by] < after][: body["size"]]
        answer["hits"]["hits"] = [_hit(points, row, by, body) for points, row in shown]
    if "suggest" in body:
        answer["suggest"] = {
            name: [{"options": [{"text": each} for each in near(index, asked)]}]
            for name, asked in _suggestions(body["suggest"])
        }
    return answer


def score(query: dict[str, Any], row: dict[str, Any]) -> float:
    """0 if a document does not match."""
    ((kind, about),) = query.items()
    if kind == "match_all":
        return 1.0
    if kind == "terms":
        ((name, values),) = about.items()
        return 1.0 if row.get(name) in values else 0.0
    if kind == "multi_match":
        return max(_in_field(row, name, about["query"]) for name in about["fields"])
    assert kind == "bool", kind
    points = [score(each, row) for each in (*about.get("must", ()), *about.get("filter", ()))]
    if "should" in about:
        points.append(max(score(each, row) for each in about["should"]))
    return sum(points) if all(points) else 0.0


def _in_field(row: dict[str, Any], name: str, text: str) -> float:
    field_name, _, weight = name.removesuffix("").partition("^")
    asked = {stem(word) for word in words(text)}
    stored = [stem(word) for word in words(row.get(field_name.removesuffix(".words")))]
    return float(weight) if asked & set(stored) else 0.0


def _hit(points: float, row: dict[str, Any], by: str, body: dict[str, Any]) -> dict[str, Any]:
    hit: dict[str, Any] = {"_id": row["_id"], "_version": row["_version"], "_score": points, "sort": [row[by]]}
    hit["_source"] = {name: value for name, value in row.items() if name not in hit}
    if "highlight" in body:
        start, end = body["highlight"]["pre_tags"][0], body["highlight"]["post_tags"][0]
        asked = {stem(word) for text in _asked(body["query"]) for word in words(text)}
        marked = {name: _marked(row.get(name.removesuffix(".words")), asked, start, end) for name in
                  body["highlight"]["fields"]}  # fmt: skip
        hit["highlight"] = {name: [text] for name, text in marked.items() if text is not None}
    return hit


def _asked(query: Any) -> Iterator[str]:
    if isinstance(query, list):
        for each in query:
            yield from _asked(each)
    elif isinstance(query, dict):
        for name, value in query.items():
            if name == "multi_match":
                yield value["query"]
            else:
                yield from _asked(value)


def _marked(text: Any, asked: set[str], start: str, end: str) -> str | None:
    def mark(match: re.Match[str]) -> str:
        word = match[0]
        return f"{start}{word}{end}" if {stem(each) for each in words(word)} & asked else word

    marked = WORD.sub(mark, text) if isinstance(text, str) else ""
    return marked if start in marked else None


def _suggestions(suggest: dict[str, Any]) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    for name, about in suggest.items():
        if name != "text":
            yield name, (suggest["text"], about["term"])


def near(index: _Index, asked: tuple[str, dict[str, Any]]) -> list[str]:
    """Words of a field that are one edit away, by comparing with each of them."""
    word, about = asked
    name = about["field"].removesuffix(".spelled")
    stored = {each for row in index.rows() for each in words(row.get(name))}
    return sorted(each for each in stored if each != word and _one_edit(word, each))[: about["size"]]


def _one_edit(one: str, other: str) -> bool:
    letters = "".join(sorted({*one, *other}))
    splits = [(one[:place], one[place:]) for place in range(len(one) + 1)]
    edited = {left + right[1:] for left, right in splits if right}
    edited |= {left + letter + right[1:] for left, right in splits if right for letter in letters}
    edited |= {left + letter + right for left, right in splits for letter in letters}
    edited |= {left + right[1] + right[0] + right[2:] for left, right in splits if len(right) > 1}
    return other in edited
