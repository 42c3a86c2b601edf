"""One cluster over HTTP: requests, the indexes behind an alias, and the errors that answers become.

Documents are written by `documents.py` and searched by `search.py`.
"""

import hashlib
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from forager.core.errors import Conflict, Permanent, Transient
from forager.sdk.delivery import Indexed, IndexedField

JSON, LINES = "application/json", "application/x-ndjson"
LONGEST_REASON = 300
BUSY = frozenset({408, 429})
"""Statuses below 500 that mean: retry later."""


class Missing(Transient):
    """The alias or index is not there. It is created before the next write."""


@dataclass(frozen=True, slots=True)
class SearchCluster:
    """Address of the cluster, login, and time limits."""

    url: str
    timeout: float = 30.0
    authorization: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


def basic(username: str, password: str) -> str:
    """Return the `Authorization` header of a user with a password."""
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


def api_key(encoded: str) -> str:
    """Return the `Authorization` header of an API key."""
    return f"ApiKey {encoded}"


class Client:
    """Sends requests to one cluster. Connections stay open between requests; `close` it at the end."""

    def __init__(self, cluster: SearchCluster) -> None:
        self.cluster = cluster
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, none_if: int = 0
    ) -> Any:
        """Send a request and return the JSON of its answer, or None if its status is `none_if`.

        `body` is encoded as JSON; bytes are sent as lines of JSON. Raises `Missing` if the index is not there,
        `Permanent` if the cluster refuses the request, and `Transient` for everything that may pass, which includes
        missing rights: an operator grants them, and no change may be set aside meanwhile.
        """
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers = {"Content-Type": LINES if isinstance(body, bytes) else JSON}
        try:
            async with self._open().request(
                method, self.cluster.url + path, data=data, params=query, headers=headers, allow_redirects=False
            ) as response:
                status, content = response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = str(error) or f"no answer within {self.cluster.timeout:g} s"
            raise Transient(f"The search index ({self.cluster.url}) cannot be reached: {why}.") from error
        if status == none_if:
            return None
        if status >= 300:
            raise self._refusal(method, path, status, content)
        try:
            return orjson.loads(content) if content else {}
        except ValueError:
            raise Transient(f"The search index ({self.cluster.url}) did not answer with JSON.") from None

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            cluster = self.cluster
            headers = {"Authorization": cluster.authorization} if cluster.authorization else {}
            trusted = None if cluster.ca_file is None else ssl.create_default_context(cafile=str(cluster.ca_file))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted or True),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=cluster.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _refusal(self, method: str, path: str, status: int, content: bytes) -> Exception:
        kind, why = reason_of(content)
        message = f"The search index ({self.cluster.url}) answered {method} {path} with {status}: {why}."
        if status == 404 and kind in ("index_not_found_exception", "aliases_not_found_exception", ""):
            return Missing(message)
        if status in (401, 403):
            return Transient(f"{message} Check the FORAGER_ELASTICSEARCH_ settings and the rights of this user.")
        if status >= 500 or status in BUSY or status < 400:
            return Transient(message)
        return Permanent(message)


def reason_of(content: bytes) -> tuple[str, str]:
    """Return the type and the text of an error, as the cluster states them; its text may be cut."""
    try:
        error = orjson.loads(content)["error"]
    except (ValueError, LookupError, TypeError):
        return "", content[:LONGEST_REASON].decode(errors="replace") or "no reason given"
    if not isinstance(error, dict):
        return "", str(error)[:LONGEST_REASON]
    return str(error.get("type", "")), str(error.get("reason", ""))[:LONGEST_REASON]


# The definition of an index: the mapping of the documents, and the analysis that gives all three searches the same
# results. Pure.
#
# The fields themselves are those that the pipeline declares. Fields that are searched for words have two more forms:
# `words`, stemmed and without accents, as the searches in SQLite and PostgreSQL see a text, and `spelled`, not stemmed,
# in which near words are found.


WORDS, SPELLED = "words", "spelled"
NOT_A_WORD = "[^\\p{L}\\p{N}]+"
"""Java's form of what separates words (`sdk.search`)."""
LONGEST_WORD = 255
LONGEST_KEYWORD = 8_000
"""Lucene takes keywords of at most 32,766 bytes; longer ones are stored and not indexed."""
META = "forager"
"""The entry of an index's `_meta` that is ours."""

ANALYSIS: dict[str, Any] = {
    "tokenizer": {"forager_words": {"type": "pattern", "pattern": NOT_A_WORD}},
    "filter": {
        "forager_stem": {"type": "stemmer", "language": "english"},
        "forager_length": {"type": "length", "min": 1, "max": LONGEST_WORD},
    },
    "analyzer": {
        "forager_words": {
            "type": "custom",
            "tokenizer": "forager_words",
            "filter": ["lowercase", "asciifolding", "forager_length", "forager_stem"],
        },
        "forager_spelled": {
            "type": "custom",
            "tokenizer": "forager_words",
            "filter": ["lowercase", "asciifolding", "forager_length"],
        },
    },
}
SETTINGS: dict[str, Any] = {"index": {"refresh_interval": "1s"}, "analysis": ANALYSIS}
"""The interval is stated, because an index without one is not refreshed while it is not searched."""


def properties_of(indexed: Indexed) -> dict[str, Any]:
    return {field.name: _property(field, field.name in indexed.searched) for field in indexed.fields}


def definition_of(indexed: Indexed) -> str:
    """Return a hash of everything that determines the contents of an index. If it changes, the index is rebuilt."""
    whole = orjson.dumps([ANALYSIS, properties_of(indexed)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(whole).hexdigest()[:16]


def index_body(indexed: Indexed, began: int, witness: str) -> dict[str, Any]:
    """Return the body that creates an index: filled from the records as they were after the change `began`."""
    meta = {META: {"definition": definition_of(indexed), "began": began, "witness": witness}}
    return {
        "settings": SETTINGS,
        "mappings": {"dynamic": False, "_meta": meta, "properties": properties_of(indexed)},
    }


def _property(field: IndexedField, is_searched: bool) -> dict[str, Any]:
    form: dict[str, Any] = {"type": field.type}
    if field.type == "text":
        form["analyzer"] = "standard"
    if field.type == "keyword":
        form["ignore_above"] = LONGEST_KEYWORD
    if is_searched:
        form["fields"] = {
            WORDS: {"type": "text", "analyzer": "forager_words"},
            SPELLED: {"type": "text", "analyzer": "forager_spelled"},
        }
    return form


# The alias of one record class, and the numbered indexes behind it: `products` names `products-000007`.


Meta = dict[str, Any]
"""The `_meta` of an index: its `definition`, the change `began` after which it was filled, and a `witness`."""


class Alias:
    """The index that an alias names and the older ones, with functions to create and remove them."""

    def __init__(self, client: Client, indexed: Indexed, name: str) -> None:
        self.name = name
        self.definition = definition_of(indexed)
        self._client = client
        self._indexed = indexed
        self._pattern = re.compile(rf"{re.escape(name)}-([0-9]{{6,}})")

    async def current(self) -> Meta | None:
        """Return the `_meta` of the index behind the alias; None if there is no such alias.

        Raises `Conflict` if the name belongs to something that Forager has not made.
        """
        found = await self._client.ask("GET", f"/{self.name}/_mapping", none_if=404)
        if found is None:
            return None
        metas = [_meta(about) for about in found.values()]
        if self.name in found or len(metas) != 1 or metas[0] is None:
            raise Conflict(
                f"{self.name!r} in the search cluster is not an alias of Forager's. Remove or rename it, or set"
                " FORAGER_ELASTICSEARCH_PREFIX."
            )
        return metas[0]

    async def meta(self, index: str) -> Meta | None:
        """Return the `_meta` of an index; None if it is not there."""
        found = await self._client.ask("GET", f"/{index}/_mapping", none_if=404)
        return None if found is None else _meta(found[index])

    async def names(self, index: str) -> bool:
        """Return whether the alias names this index."""
        return index in (await self._client.ask("GET", f"/_alias/{self.name}", none_if=404) or {})

    async def next_index(self) -> str:
        """Return a name that no index has yet, neither one of ours nor another."""
        return f"{self.name}-{max((number for number, _ in (await self._numbered()).values()), default=0) + 1:06d}"

    async def create(self, index: str, began: int, witness: str) -> None:
        """Create an empty index. One of the same name that Forager created is replaced. Raises `Conflict` for
        another's."""
        found = await self._client.ask("GET", f"/{index}/_mapping", none_if=404)
        if found is not None and _meta(found[index]) is None:
            raise Conflict(
                f"The index {index!r} in the search cluster is not Forager's. Rename it, or set"
                " FORAGER_ELASTICSEARCH_PREFIX."
            )
        await self._client.ask("DELETE", f"/{index}", none_if=404)
        await self._client.ask("PUT", f"/{index}", index_body(self._indexed, began, witness))

    async def move_to(self, index: str) -> None:
        """Let the alias name this index and no other, in one step; everything written to it before is visible."""
        await self._client.ask("POST", f"/{index}/_refresh")
        named = await self._client.ask("GET", f"/_alias/{self.name}", none_if=404) or {}
        actions: list[dict[str, Any]] = [
            {"remove": {"index": other, "alias": self.name}} for other in named if other != index
        ]
        actions.append({"add": {"index": index, "alias": self.name}})
        await self._client.ask("POST", "/_aliases", {"actions": actions})

    async def remove_all_but(self, index: str) -> None:
        """Remove the other indexes of this alias: the one before, and those of rebuilds that were given up."""
        for other, (_, is_ours) in (await self._numbered()).items():
            if is_ours and other != index:
                await self._client.ask("DELETE", f"/{other}", none_if=404)

    async def _numbered(self) -> dict[str, tuple[int, bool]]:
        """Return, by name, the number of an index whose name is the alias and a number, and whether Forager made it."""
        found = await self._client.ask("GET", f"/{self.name}-*/_mapping", none_if=404) or {}
        matches = {index: self._pattern.fullmatch(index) for index in found}
        return {index: (int(match[1]), _meta(found[index]) is not None) for index, match in matches.items() if match}


def _meta(about: Any) -> Meta | None:
    meta = about["mappings"].get("_meta", {}).get(META)
    return meta if isinstance(meta, dict) else None
