"""Records become documents, and documents are written in bulk, each with a version.

The version is the number of a change (`version_type: external`): the cluster refuses a document whose version is not
above the stored one, so whatever comes late or twice, old never replaces new. A refusal of this kind is a success.
Removing a document needs no higher version than the stored one (`external_gte`): a record that leaves the store without
a change has none, and one that comes back has a later change.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from forager.core.database import Database, Row
from forager.core.errors import Transient
from forager.sdk.delivery import Indexed, IndexedField
from forager.sinks.elasticsearch.client import BUSY, Client, Missing

MOST_BYTES = 5 * 1024 * 1024
"""Size of one bulk request; one larger document is sent alone."""
LONGEST_ID = 512
"""Bytes that an `_id` may have."""
LONGEST_TEXT = 100_000
"""Characters of a text that are indexed: clusters refuse to mark matches in texts of more than a million."""
KEYS_AT_ONCE = 500
CONFLICT = 409


@dataclass(frozen=True, slots=True)
class IndexDocument:
    """The current state of one record; `body` is None if the record is gone from the store."""

    key: str
    version: int
    body: Mapping[str, Any] | None


@dataclass(slots=True)
class BulkResult:
    """The result of a bulk write."""

    refused: dict[str, str] = field(default_factory=dict)
    """Reasons for documents that the cluster will never accept, by key."""


class Documents:
    """Reads the records of one class as documents."""

    def __init__(self, indexed: Indexed, database: Database) -> None:
        self._indexed = indexed
        self._database = database
        record = indexed.record
        columns = dict.fromkeys(["id", record.key_field, *(each.column for each in indexed.fields)])
        self._select = f"SELECT {', '.join(columns)} FROM {record.table}"
        self._key = record.key_field

    async def by_keys(self, versions: Mapping[str, int]) -> list[IndexDocument]:
        """Return the records with these keys as they are now, each with the version that belongs to its key."""
        keys, documents = list(versions), []
        for start in range(0, len(keys), KEYS_AT_ONCE):
            part = keys[start : start + KEYS_AT_ONCE]
            rows = await self._database.fetch_by_keys(f"{self._select} WHERE {self._key} IN :keys", {"keys": part})
            found = {str(row[self._key]): row for row in rows}
            for key in part:
                body = self._body(found[key]) if key in found else None
                documents.append(IndexDocument(key, versions[key], body))
        return documents

    async def between(self, first: int, last: int, version: int) -> list[IndexDocument]:
        """Return the records with ids above `first`, up to `last`, all with this version."""
        rows = await self._database.fetch(
            f"{self._select} WHERE id > :first AND id <= :last ORDER BY id", {"first": first, "last": last}
        )
        return [IndexDocument(str(row[self._key]), version, self._body(row)) for row in rows]

    async def last(self) -> int:
        """Return the highest id of a record, or 0."""
        (row,) = await self._database.fetch(f"SELECT coalesce(max(id), 0) AS last FROM {self._indexed.record.table}")
        return int(row["last"])

    def _body(self, row: Row) -> dict[str, Any]:
        return {each.name: _value(each, row[each.column]) for each in self._indexed.fields}


async def write(
    client: Client, target: str, documents: Sequence[IndexDocument], *, is_alias: bool = False
) -> BulkResult:
    """Write documents to an index, or through an alias, which must exist. Returns those that were permanently refused.

    Raises `Missing` if the alias or index is not there, and `Transient` if some documents have to be sent again.
    """
    written = BulkResult()
    query = {"require_alias": "true"} if is_alias else {}
    if is_alias and any(document.body is None for document in documents):
        # For removals a cluster ignores `require_alias`: to a missing alias it would create an index of that name.
        await client.ask("GET", f"/_alias/{target}")
    for lines, part in _parts(documents):
        answer = await client.ask("POST", f"/{target}/_bulk", lines, query=query)
        for document, item in zip(part, answer["items"], strict=True):
            _note(document, next(iter(item.values())), written)
    return written


def id_of(key: str) -> str:
    """Return the `_id` of a record's document: its key, or a hash of a key that is too long."""
    return key if len(key.encode()) <= LONGEST_ID else hashlib.sha256(key.encode()).hexdigest()


def _note(document: IndexDocument, result: Mapping[str, Any], written: BulkResult) -> None:
    status, error = int(result["status"]), result.get("error") or {}
    if status < 300 or status == CONFLICT or (status == 404 and document.body is None and not error):
        return
    reason = f"{error.get('type', 'error')}: {str(error.get('reason', status))[:300]}"
    if status == 404:
        raise Missing(f"The search index is not there ({reason}).")
    if status >= 500 or status in (*BUSY, 401, 403):
        raise Transient(f"The search index does not take documents now ({reason}).")
    written.refused[document.key] = reason


def _parts(documents: Sequence[IndexDocument]) -> list[tuple[bytes, Sequence[IndexDocument]]]:
    parts: list[tuple[bytes, Sequence[IndexDocument]]] = []
    lines: list[bytes] = []
    start = size = 0
    for position, document in enumerate(documents):
        line = _lines(document)
        if lines and size + len(line) > MOST_BYTES:
            parts.append((b"".join(lines), documents[start:position]))
            lines, start, size = [], position, 0
        lines.append(line)
        size += len(line)
    if lines:
        parts.append((b"".join(lines), documents[start:]))
    return parts


def _lines(document: IndexDocument) -> bytes:
    about = {"_id": id_of(document.key), "version": document.version}
    if document.body is None:
        return orjson.dumps({"delete": {**about, "version_type": "external_gte"}}) + b"\n"
    about["version_type"] = "external"
    return orjson.dumps({"index": about}) + b"\n" + orjson.dumps(document.body) + b"\n"


def _value(field: IndexedField, stored: Any) -> Any:
    if stored is None:
        return None
    if field.type == "date":
        moment = datetime.fromtimestamp(stored / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return stored[:LONGEST_TEXT] if field.type == "text" else stored
