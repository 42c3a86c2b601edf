"""Elasticsearch for tests: the stand-in, one for all tests of a process, and requests that go round our own client."""

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from forager.core.change import Change
from forager.sdk.delivery import Indexed, IndexedField
from forager.sinks.elasticsearch.client import Client, SearchCluster, index_body
from forager.sinks.elasticsearch.search import ElasticIndex
from forager.sinks.elasticsearch.wiring import ElasticsearchSink
from tests.support.elastic_standin import StandIn
from tests.support.rig_pipelines import Thing

CLUSTER = "elasticsearch"
"""The file in a test's folder that names the cluster, for its processes."""


class SearchedThing(Thing):
    """A thing of the rig's pipeline, found by its title."""

    search: ClassVar[Mapping[str, str]] = {"title": "A"}


THINGS = Indexed(
    SearchedThing,
    alias="things",
    number="thing_id",
    fields=(
        IndexedField("thing_id", "integer", "id"),
        IndexedField("uid", "keyword", "uid"),
        IndexedField("title", "text", "title"),
        IndexedField("created_at", "date", "first_seen_at"),
    ),
)


@cache
def standin() -> StandIn:
    """One for all tests of this process; each test has indexes of its own."""
    return StandIn()


def url_of(folder: Path) -> str:
    """The cluster of a test: the one that its folder names, otherwise the stand-in."""
    named = folder / CLUSTER
    if not named.exists():
        named.write_text(standin().url)
    return named.read_text()


def name_server(folder: Path) -> None:
    """Start the stand-in here, so that it outlives the processes of a test."""
    url_of(folder)


def prefix_of(folder: Path) -> str:
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:10]}-"


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """Send one request. Returns None for a 404, and for an index that another process has created a moment ago."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
    request = urllib.request.Request(url + path, data, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        said = error.read().decode()
        if error.code == 404 or "resource_already_exists_exception" in said:
            return None
        raise AssertionError(f"{method} {path}: {error.code} {said[:500]}") from error


def index_at(ledger: Any, folder: Path) -> ElasticIndex:
    return ElasticIndex(Client(SearchCluster(url_of(folder), 20.0)), ledger, THINGS, prefix=prefix_of(folder))


def open_elastic(ledger: Any, folder: Path) -> ElasticsearchSink:
    """A sink on an index that is there and empty, so that every document comes from a change."""
    url, alias = url_of(folder), f"{prefix_of(folder)}things"
    if ask(url, "GET", f"/{alias}/_mapping") is None:
        ask(url, "PUT", f"/{alias}-000001", index_body(THINGS, 0, ""))
        ask(url, "POST", "/_aliases", {"actions": [{"add": {"index": f"{alias}-000001", "alias": alias}}]})
    return ElasticsearchSink("elasticsearch", [index_at(ledger, folder)])


def versions(folder: Path) -> list[tuple[str, int]]:
    """(identity, change) of every document."""
    url, alias = url_of(folder), f"{prefix_of(folder)}things"
    asked = {"query": {"match_all": {}}, "version": True, "size": 10_000, "sort": [{"thing_id": "desc"}]}
    if ask(url, "POST", f"/{alias}/_refresh") is None:
        return []
    hits = ask(url, "POST", f"/{alias}/_search", asked)["hits"]["hits"]
    return [(f"thing/{hit['_id']}", hit["_version"]) for hit in hits]


def wanted(changes: Sequence[Change]) -> list[tuple[str, int]]:
    """The last change of each thing."""
    return list({change.identity: change.id for change in changes if change.kind == "thing"}.items())
