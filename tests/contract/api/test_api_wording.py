"""A wrong value in any field of any route is reported in plain words, under the field's own name (issue 14)."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.api import Front
from tests.support.wording import raw_words

WRONG: tuple[Any, ...] = ("cheap", -5, "", "x" * 4_200, 10**30, 2.5, True, None, {"no_such_field": 1}, [1, None])
UNKNOWN = "no_such_field"
OPEN_ENDED = ("/events", "/stream")
"""Their answers go on until the reader leaves."""
PATH_VALUES = ("cheap", "-5", "x" * 400, "9" * 30)


async def test_no_route_answers_with_the_words_of_a_validator(simple: Front) -> None:
    asked = refused = 0
    bad: list[str] = []
    for method, path, operation in _operations(simple.api.openapi()):
        fields = _fields(simple.api.openapi(), operation)
        for target, sent in _requests(path, operation, fields):
            got = await simple.client.request(method, target, **sent)
            asked += 1
            assert got.status_code < 500, (method, target, sent, got.text)
            if got.status_code >= 400:
                refused += 1
                bad += _findings(got, {*fields, *_names(operation)}, f"{method} {target} {str(sent)[:200]}")
    assert not bad, "\n".join(bad)
    assert asked > 700, "the document names hardly any field"
    assert refused > asked / 2


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("/api/v1/listings", {"max_rent": "cheap"}, "must be a whole number"),
        ("/api/v1/listings", {"beds": "-1"}, "must be at least 0"),
        ("/api/v1/products/search", {"q": ""}, "must not be empty"),
        ("/api/v1/products", {"product_id": "9"}, "unknown field"),
        ("/api/v1/dead", {"reason": "Timed out"}, "must be lower-case letters, digits and `_`, with a letter first"),
    ],
)
async def test_a_wrong_value_is_answered_with_what_is_right(
    client: httpx.AsyncClient, path: str, query: dict[str, str], told: str
) -> None:
    got = await client.get(path, params=query)

    assert got.status_code == 422
    assert {"field": next(iter(query)), "message": told} in got.json()["meta"]["fields"]


def _findings(got: httpx.Response, known: set[str], asked: str) -> Iterator[str]:
    for phrase in raw_words(got.text):
        yield f"{asked}: {phrase}"
    for wrong in got.json()["meta"].get("fields", ()):
        if wrong["field"].partition(".")[0] not in {*known, "body", UNKNOWN}:
            yield f"{asked}: names {wrong['field']}: {wrong['message']}"


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        if path.startswith("/api/") and not path.endswith(OPEN_ENDED):
            for method, operation in operations.items():
                yield method.upper(), path, operation


def _names(operation: dict[str, Any]) -> set[str]:
    return {each["name"].lower() for each in operation.get("parameters", ())}


def _requests(path: str, operation: dict[str, Any], fields: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each wrong value in every field at once: all findings come back together. A query has a few at a time, since its
    length is limited."""
    whole = re.sub(r"{[^}]*}", "1", path)
    queries = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]
    if "{" in path:
        yield from ((re.sub(r"{[^}]*}", value, path), {}) for value in PATH_VALUES)
    for start in range(0, len(queries), 8):
        for value in WRONG:
            yield whole, {"params": dict.fromkeys([*queries[start : start + 8], UNKNOWN], str(value))}
    if fields:
        for value in WRONG:
            yield whole, {"json": value}
            yield whole, {"json": dict.fromkeys([*fields, UNKNOWN], value)}
        yield whole, {"json": {}}
        yield whole, {"content": b"{", "headers": {"Content-Type": "application/json"}}


def _fields(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """The fields of the body, of every form that it may have."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    found: list[str] = []

    def look(schema: dict[str, Any]) -> None:
        if reference := schema.get("$ref"):
            look(document["components"]["schemas"][reference.rpartition("/")[2]])
        found.extend(schema.get("properties", ()))
        for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
            look(inner)

    look(content.get("schema", {}))
    return found
